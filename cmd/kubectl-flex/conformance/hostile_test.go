package conformance

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// plain is a user who is nobody special.
	plain = 65534
	// Again is set where the tests of root run again as that user.
	Again = "FLEX_CONFORMANCE_AGAIN"
)

// TestHostileImages runs hostile images by the kit, as root and as a user: no run goes through, at whatever level the kit tries it, and
// it costs the kit little.
func TestHostileImages(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Run("as a user", func(t *testing.T) { again(t, "TestHostileImages", 8) })
	}
	payload, err := os.ReadFile(payloadOf(t))
	want(t, err)
	const locked = "directories that it locks"
	for name, attack := range map[string][]string{
		"core_pattern":             {"open", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger"},
		"a mount":                  {"mount"},
		"a hundred MiB of output":  {"flood", "100"},
		"a sparse termination log": {"sparse", "/dev/termination-log", "1024"},
		"a large termination log":  {"fill", "/dev/termination-log", "64"},
		"a full /tmp":              {"fill", "/tmp/file", "64"},
		"a replaced log":           {"replace", "/dev/termination-log", "/etc/passwd"},
		locked:                     {"locked", "/export"},
		"variables of the caller":  {"environment", "FLEX_HOSTILE_SECRET"},
		"its token, rewritten":     {"open", "/var/run/secrets/kubernetes.io/serviceaccount/token", "/etc/flex-provisioner/request.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("FLEX_HOSTILE_SECRET", "of the caller")
			dir := t.TempDir()
			evidence, file, tmp := filepath.Join(dir, "evidence"), filepath.Join(dir, "image.tar"), filepath.Join(dir, "tmp")
			want(t, os.Mkdir(tmp, 0o755), os.Mkdir(evidence, 0o755), os.WriteFile(filepath.Join(evidence, "log"), nil, 0o666),
				os.Chmod(filepath.Join(evidence, "log"), 0o666), os.WriteFile(file, imageOf(t, payload, attack), 0o644))
			t.Setenv("TMPDIR", tmp)
			want(t, os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)) // the largest size so far is the present one
			before, began := largest(t), time.Now()
			warned := ""
			report, err := Run(t.Context(), Options{Subject: file, Storage: []string{"/export"}, Timeout: 20 * time.Second, Grace: time.Second, Kills: 1,
				Only: []string{"provision", "secrets"}, Flexctl: payloadOf(t), Mounts: map[string]string{"/evidence": evidence},
				Warn: func(text string) { warned = text }})
			cannotLook := name == locked && errors.Is(err, fs.ErrPermission) // where a user runs the kit
			if err != nil && !cannotLook {
				t.Error(err)
			}
			text, err := os.ReadFile(filepath.Join(evidence, "log"))
			want(t, err)
			held := strings.Count(string(text), "held: ")
			if held < 8 || strings.Contains(string(text), "through: ") || report != nil && report.Passed {
				t.Errorf("report %+v, runs:\n%s", report, text)
			}
			if grew := largest(t) - before; grew > 200<<20 {
				t.Errorf("the kit grew by %d MiB", grew>>20)
			} else {
				t.Logf("the kit grew by %d MiB in %s", grew>>20, time.Since(began).Round(time.Millisecond))
			}
			if left := tree(t, tmp); len(left) > 1 {
				t.Errorf("left are %v", left)
			}
			if !strings.Contains(warned, "is run on this machine") {
				t.Errorf("the warning was %q", warned)
			}
		})
	}
}

// largest is the largest size of this process in memory.
func largest(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	want(t, err)
	_, value, _ := strings.Cut(string(text), "VmHWM:")
	kibibytes, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
	want(t, err)
	return kibibytes << 10
}

// imageOf is an image with one program.
func imageOf(t *testing.T, payload []byte, attack []string) []byte {
	t.Helper()
	command, err := json.Marshal(map[string]any{"config": map[string]any{"Entrypoint": append([]string{"/payload"}, attack...)}})
	want(t, err)
	layer := tarOf(t, file{name: "payload", text: string(payload)}, file{name: "mnt/"})
	return tarOf(t, file{name: "config.json", text: string(command)}, file{name: "layer.tar", text: string(layer)},
		file{name: "manifest.json", text: `[{"Config": "config.json", "Layers": ["layer.tar"]}]`})
}

// payloadOf builds the program of hostile images.
func payloadOf(t *testing.T) string {
	t.Helper()
	if os.Getenv(Again) != "" {
		return os.Getenv(Again)
	}
	file := filepath.Join(t.TempDir(), "payload")
	build := exec.Command("go", "build", "-o", file, "../../../test/hostile")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return file
}

// TestHostileLayers unpacks layers that lead out of the image, as root and as a user: nothing outside changes.
func TestHostileLayers(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Run("as a user", func(t *testing.T) { again(t, "TestHostileLayers", 15) })
	}
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	text := func(name string) tar.Header {
		return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: 1}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to} }
	for name, headers := range map[string][]tar.Header{
		"a name that leads out":               {text("../../outside/file")},
		"an absolute name":                    {text("OUT/file")},
		"a file over a link":                  {link("x", "OUT/file"), text("x")},
		"a file through a link":               {link("x", "OUT"), text("x/file")},
		"a file through a relative link":      {link("a/x", "../../outside"), text("a/x/file")},
		"a file through a chain of links":     {link("x", "y/.."), link("y", "z"), link("z", "OUT/dir"), text("x/file")},
		"a link in place of a directory":      {{Typeflag: tar.TypeDir, Name: "x/", Mode: 0o755}, link("x", "OUT"), text("x/file")},
		"a directory over a link":             {link("x", "OUT"), {Typeflag: tar.TypeDir, Name: "x/", Mode: 0o777}},
		"a directory through a link":          {link("x", "OUT"), {Typeflag: tar.TypeDir, Name: "x/dir/", Mode: 0o777}},
		"a hard link to a file":               {hard("x", "OUT/file"), text("x")},
		"a hard link through a link":          {link("y", "OUT"), hard("x", "y/file"), text("x")},
		"a hard link to a link":               {link("y", "OUT/file"), hard("x", "y"), text("x")},
		"a hard link in a link's directory":   {text("a"), link("y", "OUT"), hard("y/made", "a")},
		"a whiteout through a link":           {link("x", "OUT"), text("x/.wh.file")},
		"a whiteout of a directory's link":    {link("x", "OUT/dir"), text(".wh.x")},
		"a whiteout through a relative link":  {link("x", "../outside"), text("x/.wh.dir")},
		"a whiteout of what is above":         {text(".wh..."), text("a/.wh...")},
		"an opaque whiteout through a link":   {link("x", "OUT"), text("x/.wh..wh..opq")},
		"a device":                            {{Typeflag: tar.TypeBlock, Name: "disk", Mode: 0o666, Devmajor: 254}},
		"a FIFO, and a file in its place":     {{Typeflag: tar.TypeFifo, Name: "x", Mode: 0o666}, text("x")},
		"a link of /proc":                     {link("x", "/proc/self/cwd"), text("x/planted")},
		"a directory that nobody may enter":   {{Typeflag: tar.TypeDir, Name: "x/", Mode: 0}, text("x/file")},
		"an owner that there is no number of": {{Typeflag: tar.TypeReg, Name: "x", Mode: 0o644, Size: 1, Uid: 1 << 30, Gid: -1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			outside, root := filepath.Join(dir, "outside"), filepath.Join(dir, "root")
			want(t, os.MkdirAll(filepath.Join(outside, "dir/dir"), 0o755), os.Mkdir(root, 0o755), os.WriteFile(filepath.Join(outside, "file"), []byte("precious"), 0o600))
			before := tree(t, outside)
			var layer bytes.Buffer
			w := tar.NewWriter(&layer)
			for _, header := range headers {
				header.Name, header.Linkname = strings.ReplaceAll(header.Name, "OUT", outside), strings.ReplaceAll(header.Linkname, "OUT", outside)
				want(t, w.WriteHeader(&header))
				_, err := w.Write(make([]byte, header.Size))
				want(t, err)
			}
			want(t, w.Close())
			err := (&archive{room: roomOf}).unpackLayer(&layer, root)
			t.Log(err)
			if after := tree(t, outside); !maps.Equal(before, after) {
				t.Errorf("outside was\n%v\nand is\n%v", before, after)
			}
			if found := strange(t, root); len(found) > 0 {
				t.Errorf("on this machine, there are %q", found)
			}
			want(t, removeAll(root))
		})
	}
}

// TestSetuid: no file of an image is set-user-ID on the machine.
func TestSetuid(t *testing.T) {
	root := t.TempDir()
	layer := tarred(t, &tar.Header{Typeflag: tar.TypeReg, Name: "x", Mode: 0o6755}, &tar.Header{Typeflag: tar.TypeDir, Name: "d/", Mode: 0o2755})
	want(t, (&archive{room: roomOf}).unpackLayer(layer, root))
	if found := strange(t, root); len(found) > 0 {
		t.Errorf("on this machine, there are %q", found)
	}
}

// TestBombs: an image takes no more of the machine than there is room for, whatever its archive says.
func TestBombs(t *testing.T) {
	var zeros bytes.Buffer
	w := gzip.NewWriter(&zeros)
	all := tar.NewWriter(w)
	want(t, all.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "zeros", Mode: 0o644, Size: 64 << 20}))
	_, err := io.CopyN(all, endless{}, 64<<20)
	want(t, err, all.Close(), w.Close())
	many := make([]*tar.Header, 200)
	for i := range many {
		many[i] = &tar.Header{Typeflag: tar.TypeReg, Name: strconv.Itoa(i), Mode: 0o644}
	}
	sparse := &tar.Header{Typeflag: tar.TypeReg, Name: "sparse", Mode: 0o644, Format: tar.FormatPAX}
	for name, c := range map[string]struct {
		layer io.Reader
		room  room
	}{
		"zeros, compressed": {&zeros, room{files: 10, names: 1 << 20, read: 1 << 20, written: 1 << 30}},
		"a sparse file":     {sparseTar(t, sparse, 64<<20), room{files: 10, names: 1 << 20, read: 1 << 30, written: 1 << 20}},
		"files":             {tarred(t, many...), room{files: 100, names: 1 << 20, read: 1 << 30, written: 1 << 30}},
		"names":             {tarred(t, many...), room{files: 1 << 20, names: 100, read: 1 << 30, written: 1 << 30}},
	} {
		root := t.TempDir()
		if err := (&archive{room: c.room}).unpackLayer(c.layer, root); !errors.Is(err, errTooLarge) {
			t.Errorf("%s: error %v", name, err)
		}
		if size := used(t, root); size > 2<<20 {
			t.Errorf("%s: it took %d bytes", name, size)
		}
	}
}

// TestWarning: who runs a provisioner reads before what it is and what it can do.
func TestWarning(t *testing.T) {
	t.Setenv("TMPDIR", "/scratch")
	image := &subject{kind: "ConfigMap x.yaml in image evil:1", root: "/scratch/root"}
	script := &subject{kind: "script x.sh", root: "/"}
	who := "as nobody of this machine"
	if os.Geteuid() != 0 {
		who = "as you"
	}
	for _, c := range []struct {
		subject *subject
		options Options
		want    string
	}{
		{image, Options{}, "Warning: ConfigMap x.yaml in image evil:1 is run on this machine, a few hundred times, in a sandbox: " + who +
			", with the image's files and no network but a double of the API server. It can fill the disk of /scratch and use all CPUs and memory."},
		{script, Options{HostUsers: true, Network: true, Mounts: map[string]string{"/a": "/srv/a"}}, "Warning: script x.sh is run on this machine, " +
			"a few hundred times, in a sandbox: as a user of this machine, root included, with all files of this machine that every user may read and " +
			"the network of this machine. It can fill the disk of /scratch and use all CPUs and memory. It can change /srv/a."},
	} {
		if got := c.subject.warning(c.options); got != c.want {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// TestPodOutput: the beginning and the end are kept, and not more.
func TestPodOutput(t *testing.T) {
	var o podOutput
	fmt.Fprintln(&o, "first")
	for range 100_000 {
		fmt.Fprintln(&o, strings.Repeat("x", 1000))
	}
	fmt.Fprintln(&o, "last")
	text := o.String()
	if len(text) > 2*maxOutput+100 || !strings.HasPrefix(text, "first\n") || !strings.HasSuffix(text, "x\nlast\n") ||
		!strings.Contains(text, "\n[99968939 bytes are left out]\n") {
		t.Errorf("%d bytes: %.20q ... %q", len(text), text, text[len(text)-20:])
	}
}

// again runs a test as a user.
func again(t *testing.T, name string, least int) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		want(t, os.Chmod(d, 0o755))
	}
	self, err := os.ReadFile("/proc/self/exe")
	want(t, err, os.WriteFile(filepath.Join(dir, "test"), self, 0o755), os.Mkdir(filepath.Join(dir, "tmp"), 0o700), os.Chown(filepath.Join(dir, "tmp"), plain, plain))
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "test"), "-test.run=^"+name+"$", "-test.v")
	command.Dir = filepath.Join(dir, "tmp")
	payload := filepath.Join(dir, "payload")
	program, err := os.ReadFile(payloadOf(t))
	want(t, err, os.WriteFile(payload, program, 0o755))
	command.Env = append(os.Environ(), "TMPDIR="+command.Dir, Again+"="+payload)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plain, Gid: plain}}
	output, err := command.CombinedOutput()
	if ran := strings.Count(string(output), "--- PASS: "+name+"/") + strings.Count(string(output), "--- FAIL: "+name+"/"); err != nil || ran < least {
		t.Errorf("%d cases as a user: %v\n%s", ran, err, output)
	}
	return string(output)
}

// tree is what there is below a directory.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	want(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, _ := os.ReadFile(name)
		found[name] = fmt.Sprint(info.Mode(), info.ModTime(), info.Sys().(*syscall.Stat_t).Uid, info.Sys().(*syscall.Stat_t).Nlink, string(text))
		return nil
	}))
	return found
}

// strange are files that no image should leave on a machine: devices, FIFOs, set-user-ID programs, and files of its people.
func strange(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	want(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t).Uid
		owned := os.Geteuid() == 0 && owner < 1<<20 && entry.Type().IsRegular()
		if owned || info.Mode()&(os.ModeDevice|os.ModeNamedPipe|os.ModeSocket|os.ModeSetuid|os.ModeSetgid) != 0 {
			found = append(found, fmt.Sprint(name, " ", info.Mode(), " ", owner))
		}
		return nil
	}))
	return found
}

func used(t *testing.T, dir string) (size int64) {
	t.Helper()
	want(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	}))
	return size
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func tarred(t *testing.T, headers ...*tar.Header) io.Reader {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range headers {
		want(t, w.WriteHeader(header))
	}
	want(t, w.Close())
	return &out
}

// sparseTar is a file of that size with nothing in it, as GNU tar writes it.
func sparseTar(t *testing.T, header *tar.Header, size int64) io.Reader {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, header.Name)
	want(t, os.WriteFile(file, nil, 0o644), os.Truncate(file, size))
	out, err := exec.CommandContext(t.Context(), "tar", "--format=pax", "-S", "-cf", "-", "-C", dir, header.Name).Output()
	want(t, err)
	if len(out) > 1<<20 {
		t.Fatalf("tar wrote %d bytes", len(out))
	}
	return bytes.NewReader(out)
}

func want(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
)

const (
	// asUser is set where the tests of root run again as a user.
	asUser = "FLEX_HOSTILE_AS_USER"
	// reopen is set in a sandbox whose program is this one.
	reopen = "FLEX_HOSTILE_REOPEN"
	// plain is a user who is nobody special.
	plain = 65534
	// oldRoot is where the machine's root once was while mounts were made.
	oldRoot = "/.flex-provisioner-old"
)

// outside is a part of the machine that a hostile image knows, and tries to reach.
type outside struct {
	dir     string
	pid     int
	port    string
	unix    string
	key     int
	open    *os.File
	binary  string
	planted string
}

func (o outside) path(name string) string { return filepath.Join(o.dir, name) }

func (o outside) keyName() string { return fmt.Sprintf("flex-hostile-%d", o.pid) }

// hostile is an image or a program that tries one way out.
type hostile struct {
	name string
	// image lays out more of the image than its program.
	image func(t *testing.T, root string, o outside)
	// spec changes what runs.
	spec func(s *sandbox.Spec, o outside)
	// attack is what the program does, one of test/hostile.
	attack func(o outside) []string
	// refused is part of the error of an image that is not run at all.
	refused string
	// rootOnly is for what a user cannot lay out or run at all.
	rootOnly bool
}

func does(args ...string) func(outside) []string { return func(outside) []string { return args } }

// linked is an image with a link in place of a directory or file of the sandbox's own.
func linked(at, to string) func(*testing.T, string, outside) {
	return func(t *testing.T, root string, o outside) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, at)), 0o755))
		must(t, os.Symlink(strings.ReplaceAll(to, "OUT", o.dir), filepath.Join(root, at)))
	}
}

func as(user int) func(*sandbox.Spec, outside) {
	return func(s *sandbox.Spec, _ outside) { s.User = user }
}

// loop is what the kernel says of links of /proc, and of links that lead in a circle inside the image.
const loop = "too many levels of symbolic links"

// links are images whose links lead out, by the ways there are: by the name that the machine's root once had, by its own name, by more
// .. than there are directories, over other links, and by links of /proc.
func links() []hostile {
	var all []hostile
	for _, at := range []struct{ link, to string }{
		{"dev", "OUT/dev"}, {"dev", "OUT/none"}, {"etc", "OUT/etc"}, {"etc/resolv.conf", "OUT/etc/resolv.conf"},
		{"etc/resolv.conf", "OUT/etc/none"}, {"proc", "OUT/proc"}, {"tmp", "OUT/empty"}, {"run", "OUT/empty"}, {"export", "OUT/empty"},
		{"data/disk", "OUT/empty/made"}, {"var/run", "OUT/empty"},
	} {
		for way, to := range map[string]string{
			"the old root": oldRoot + at.to, "the old root and ..": "../../../.." + oldRoot + at.to, "its own name": at.to,
			"proc": "/proc/self/root" + at.to,
		} {
			all = append(all, hostile{name: at.link + " is a link to " + at.to + " by " + way, refused: loop,
				image: linked(at.link, strings.ReplaceAll(to, "//", "/"))})
		}
		all = append(all, hostile{name: at.link + " is a chain of links to " + at.to, refused: loop, image: func(t *testing.T, root string, o outside) {
			linked("a", oldRoot)(t, root, o)
			linked("b", "/a/../a")(t, root, o)
			linked("c/d", "../b")(t, root, o)
			linked(at.link, "/c/d"+at.to)(t, root, o)
		}})
	}
	return all
}

// others are all other attacks.
func others() []hostile {
	file := func(name string, mode uint32, device int) func(*testing.T, string, outside) {
		return func(t *testing.T, root string, _ outside) {
			must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
			must(t, unix.Mknod(filepath.Join(root, name), mode, device))
			must(t, os.Chmod(filepath.Join(root, name), 0o666))
		}
	}
	script := func(interpreter string) func(*testing.T, string, outside) {
		return func(t *testing.T, root string, _ outside) {
			must(t, os.WriteFile(filepath.Join(root, "go"), []byte("#!"+interpreter+"\n"), 0o755))
		}
	}
	library := func(image func(*testing.T, string, outside)) func(*testing.T, string, outside) {
		return func(t *testing.T, root string, o outside) {
			image(t, root, o)
			self, err := os.Executable()
			must(t, err)
			text, _ := exec.Command("ldd", self).Output() // none of a static program
			for _, word := range strings.Fields(string(text)) {
				if filepath.IsAbs(word) {
					must(t, os.MkdirAll(filepath.Join(root, filepath.Dir(word)), 0o755))
					copyFile(t, word, filepath.Join(root, word))
				}
			}
		}
	}
	self := func(s *sandbox.Spec, o outside) {
		s.User, s.Command = 0, []string{"/go"}
		s.Env = append(s.Env, reopen+"="+o.binary)
	}
	machine := func(s *sandbox.Spec, o outside) {
		s.Root, s.User = "/", 0
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: filepath.Dir(o.planted), Target: "/opt", ReadOnly: true})
		s.Command[0] = "/opt/payload"
	}
	sysctl := []string{"open", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/vm/drop_caches"}
	all := []hostile{
		{name: "a FIFO at /dev/null", image: file("dev/null", unix.S_IFIFO, 0)},
		{name: "a FIFO at the termination log", image: file("dev/termination-log", unix.S_IFIFO, 0)},
		{name: "a FIFO at /etc/resolv.conf", image: file("etc/resolv.conf", unix.S_IFIFO, 0)},
		{name: "a socket at a mount's target", image: file("export", unix.S_IFSOCK, 0), refused: `"/export": not a directory`},
		{name: "a link to the image's own root at /dev", image: linked("dev", "/"), refused: `"/dev" is a link to the root of the image`},
		{name: "a hard link to a file of the machine", image: func(t *testing.T, root string, o outside) {
			must(t, os.Mkdir(filepath.Join(root, "etc"), 0o755))
			must(t, os.Link(o.path("file"), filepath.Join(root, "etc/resolv.conf")))
		}, attack: does("write", "/etc/resolv.conf"), spec: func(s *sandbox.Spec, _ outside) { s.User, s.Writable = 0, true }},
		{name: "a mount's target in what is mounted", refused: `"x" is missing in what is mounted there: create it`, spec: func(s *sandbox.Spec, o outside) {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: o.path("empty"), Target: "/storage"}, sandbox.Mount{Source: o.path("etc"), Target: "/storage/x/y"})
		}},
		{name: "a device of the image", rootOnly: true, image: file("disk", unix.S_IFBLK, int(unix.Mkdev(254, 0))), attack: does("read", "/disk"), spec: as(0)},
		{name: "a setuid program", image: func(t *testing.T, root string, _ outside) {
			payload, err := os.ReadFile(filepath.Join(root, "payload"))
			must(t, err)
			must(t, os.WriteFile(filepath.Join(root, "setuid"), payload, 0o755))
			must(t, os.Chmod(filepath.Join(root, "setuid"), 0o755|os.ModeSetuid))
		}, attack: does("setuid")},
		{name: "core_pattern as root", attack: does(sysctl...), spec: as(0)},
		{name: "core_pattern", attack: does(sysctl...)},
		{name: "sysrq-trigger", attack: does("open", "/proc/sysrq-trigger"), spec: as(0)},
		{name: "/proc/kcore and others", attack: does("read", "/proc/kcore", "/proc/kmsg"), spec: as(0)},
		{name: "/sys", attack: does("open", "/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/memory/release_agent"), spec: as(0)},
		{name: "another /proc in a user namespace", attack: does("fresh-proc")},
		{name: "another /proc in a user namespace as root", attack: does("fresh-proc"), spec: as(0)},
		{name: "a user namespace", attack: does("userns")},
		{name: "capabilities of root", attack: does("capabilities"), spec: as(0)},
		{name: "a mount as root", attack: does("mount"), spec: as(0)},
		{name: "unmounting as root", attack: does("unmount", "/proc/sys", "/proc/keys", "/proc", "/export"), spec: as(0)},
		{name: "remounting as root", attack: does("remount", "/", "/proc/sys", "/read-only"), spec: as(0)},
		{name: "chroot as root", attack: does("chroot"), spec: as(0)},
		{name: "a file by its handle", attack: does("handle"), spec: as(0)},
		{name: "a device that it makes", attack: does("mknod", "254", "0"), spec: as(0)},
		{name: "the devices of the machine", attack: does("read", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg"), spec: as(0)},
		{name: "a key of the session by a search", attack: func(o outside) []string { return []string{"find-key", o.keyName()} }},
		{name: "a key of the session by its number", attack: func(o outside) []string { return []string{"key", strconv.Itoa(o.key)} }, spec: as(0)},
		{name: "the list of keys", attack: func(o outside) []string { return []string{"list-keys", o.keyName()} }},
		{name: "a key of its own", attack: does("add-key")},
		{name: "a signal", attack: func(o outside) []string { return []string{"kill", strconv.Itoa(o.pid)} }, spec: as(0)},
		{name: "ptrace", attack: func(o outside) []string { return []string{"ptrace", strconv.Itoa(o.pid)} }, spec: as(0)},
		{name: "the processes of the machine", attack: does("see", "flex-hostile-sleeper")},
		{name: "files of the machine by /proc", attack: func(o outside) []string {
			ways := []string{"read"}
			for _, way := range []string{"", oldRoot, "/proc/1/root", "/proc/self/root", "/proc/1/cwd", "/proc/1/root/../..", "/.." + oldRoot} {
				ways = append(ways, way+o.path("secret"))
			}
			return ways
		}, spec: as(0)},
		{name: "a port of the machine", attack: func(o outside) []string { return []string{"dial", "tcp", o.port} }},
		{name: "an abstract socket of the machine", attack: func(o outside) []string { return []string{"dial", "unix", o.unix} }},
		{name: "directories that the caller has open", attack: does("descriptor")},
		{name: "a working directory that the caller has open", refused: loop, attack: does("here", "secret"), spec: func(s *sandbox.Spec, o outside) {
			s.User, s.Dir = 0, "/proc/self/fd/"+strconv.Itoa(int(o.open.Fd()))
		}},
		{name: "a program that is /proc/self/exe", image: library(linked("go", "/proc/self/exe")), spec: self},
		{name: "a script for /proc/self/exe", image: library(script("/proc/self/exe")), spec: self},
		{name: "processes without end", attack: does("fork", "1200")},
		{name: "a core dump", attack: does("dump")},
		{name: "a system call for programs of the kernel", attack: does("bpf")},
		{name: "the host name", attack: does("hostname"), spec: as(0)},
		{name: "another file in place of the termination log", attack: func(o outside) []string { return []string{"replace", "/dev/termination-log", o.path("secret")} }, spec: as(0)},
		{name: "a link in place of a mount", attack: func(o outside) []string { return []string{"replace", "/export", o.path("empty")} }, spec: as(0)},
		{name: "what only root reads on the machine's own root", rootOnly: true, attack: func(o outside) []string { return []string{"read", o.path("secret"), "/etc/shadow"} }, spec: machine},
		{name: "what only root writes on the machine's own root", rootOnly: true, attack: func(o outside) []string { return []string{"create", o.path("planted"), "/etc/planted"} }, spec: machine},
		{name: "core_pattern on the machine's own root", rootOnly: true, attack: does(sysctl...), spec: machine},
	}
	return all
}

// TestHostile runs hostile images and programs, as root of the machine and as a user: none goes through, and nothing outside changes.
func TestHostile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Run("as a user", asPlainUser)
	}
	for _, c := range append(links(), others()...) {
		if c.rootOnly && os.Geteuid() != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) { c.run(t) })
	}
}

// asPlainUser runs the test again, as another user.
func asPlainUser(t *testing.T) {
	dir := shared(t)
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	program := filepath.Join(dir, "test")
	must(t, os.WriteFile(program, self, 0o755))
	must(t, os.Chown(program, plain, plain)) // as a program of his own is
	tmp := filepath.Join(dir, "tmp")
	must(t, errorsOf(os.Mkdir(tmp, 0o700), os.Chown(tmp, plain, plain)))
	payload := payloadOf(t)
	command := exec.CommandContext(t.Context(), program, "-test.run=^TestHostile$", "-test.v")
	command.Env = []string{"TMPDIR=" + tmp, "PATH=" + os.Getenv("PATH"), asUser + "=" + payload}
	command.Dir = tmp
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: plain, Gid: plain}}
	output, err := command.CombinedOutput()
	ran := strings.Count(string(output), "--- PASS: TestHostile/") + strings.Count(string(output), "--- FAIL: TestHostile/")
	if err != nil || ran < 40 {
		t.Errorf("%d cases as a user: %v\n%s", ran, err, output)
	}
}

func (c hostile) run(t *testing.T) {
	o := newOutside(t)
	root, scratch, export := filepath.Join(o.dir, "../root"), shared(t), shared(t)
	must(t, os.Mkdir(root, 0o755))
	copyFile(t, payloadOf(t), filepath.Join(root, "payload"))
	if c.image != nil {
		c.image(t, root, o)
	}
	for _, name := range []string{"mnt", "read-only"} {
		must(t, os.Mkdir(filepath.Join(root, name), 0o777))
	}
	attack := []string{"nothing"}
	if c.attack != nil {
		attack = c.attack(o)
	}
	log := filepath.Join(scratch, "log")
	must(t, os.WriteFile(log, nil, 0o666))
	must(t, errorsOf(os.Chmod(log, 0o666), os.Mkdir(scratch+"/x", 0o755)))
	spec := sandbox.Spec{Root: root, Scratch: scratch + "/x", User: 65532, Command: append([]string{"/payload"}, attack...), Env: []string{"PATH=/"},
		Mounts: []sandbox.Mount{{Source: export, Target: "/export"}, {Source: export, Target: "/data/disk"}, {Source: export, Target: "/tmp"},
			{Source: export, Target: "/var/run/secrets/x"}, {Source: export, Target: "/run/x"}, {Source: export, Target: "/read-only", ReadOnly: true},
			{Source: export, Target: "/etc/flex-provisioner"}, {Source: log, Target: "/dev/termination-log"}}}
	if c.spec != nil {
		c.spec(&spec, o)
	}
	before := snapshot(t, o)
	text := start(t, spec)
	if after := snapshot(t, o); !maps.Equal(before, after) {
		for _, name := range slices.Sorted(maps.Keys(after)) {
			if before[name] != after[name] {
				t.Errorf("outside, %s was %q and is %q", name, before[name], after[name])
			}
		}
		for name := range before {
			if _, there := after[name]; !there {
				t.Errorf("outside, %s is gone", name)
			}
		}
	}
	refused := c.refused != "" && strings.HasPrefix(text, "start sandbox: ") && strings.Contains(text, c.refused)
	if !strings.HasPrefix(text, "held: ") && !refused {
		t.Errorf("it came to %s", text)
	}
	t.Log(strings.TrimSpace(text))
}

// start is the output of the program, or why it did not start.
func start(t *testing.T, spec sandbox.Spec) string {
	t.Helper()
	var output bytes.Buffer
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	process, err := sandbox.Start(spec, sandbox.Output{Stdout: &output, Stderr: &output})
	if err != nil {
		return err.Error()
	}
	defer process.Close()
	exit, err := process.Wait(ctx)
	if err != nil || exit.Signaled || time.Since(began) > 9*time.Second {
		t.Errorf("exit %+v after %s, error %v", exit, time.Since(began), err)
	}
	return output.String()
}

// newOutside is what belongs to the caller: files that nobody else reads, directories, a process, sockets, and a key.
func newOutside(t *testing.T) outside {
	t.Helper()
	o := outside{dir: filepath.Join(shared(t), "outside")}
	must(t, os.Mkdir(o.dir, 0o755))
	for _, dir := range []string{"dev", "proc", "empty", "etc/resolv.conf/precious"} {
		must(t, os.MkdirAll(o.path(dir), 0o755))
	}
	for _, file := range []string{"file", "secret", "etc/resolv.conf/precious/data", "etc/hosts"} {
		must(t, os.WriteFile(o.path(file), []byte("of the machine"), 0o600))
	}
	sleeper := &exec.Cmd{Path: "/bin/sleep", Args: []string{"flex-hostile-sleeper", "60"}}
	must(t, sleeper.Start())
	t.Cleanup(func() {
		if sleeper.Process.Signal(syscall.Signal(0)) != nil {
			t.Error("a process of the machine was killed")
		}
		_ = sleeper.Process.Kill()
		_ = sleeper.Wait()
	})
	o.pid = sleeper.Process.Pid
	for network, address := range map[string]string{"tcp": "127.0.0.1:0", "unix": fmt.Sprintf("@flex-hostile-%d", o.pid)} {
		l, err := net.Listen(network, address)
		must(t, err)
		t.Cleanup(func() { l.Close() })
		if network == "tcp" {
			o.port = l.Addr().String()
		} else {
			o.unix = address
		}
	}
	// Without a session of the machine, each thread has one. Other programs may have this one too.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var err error
	o.key, err = unix.AddKey("user", o.keyName(), []byte("password"), unix.KEY_SPEC_SESSION_KEYRING)
	must(t, err)
	t.Cleanup(func() { _, _ = unix.KeyctlInt(unix.KEYCTL_UNLINK, o.key, unix.KEY_SPEC_SESSION_KEYRING, 0, 0) })
	const all = 0x3f3f3f3f
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_SETPERM, uintptr(o.key), all)
	if errno != 0 {
		t.Fatal(errno)
	}
	o.open, err = os.Open(o.dir)
	must(t, err)
	t.Cleanup(func() { o.open.Close() })
	_, err = unix.FcntlInt(o.open.Fd(), unix.F_SETFD, 0) // as a shell leaves it
	must(t, err)
	o.planted = payloadOf(t)
	var self unix.Stat_t
	must(t, unix.Stat("/proc/self/exe", &self))
	o.binary = fmt.Sprint(self.Dev, ":", self.Ino)
	return o
}

// snapshot is what a hostile image may want to change: the machine's own directories, and what it was given to know.
func snapshot(t *testing.T, o outside) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, dir := range []string{o.dir, filepath.Join(o.dir, "../root"), "/etc"} {
		must(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil // not for this user
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			found[name] = fmt.Sprint(info.Mode(), info.Size(), info.ModTime())
			if !info.Mode().IsRegular() || info.Size() > 1<<20 {
				return nil
			}
			if text, err := os.ReadFile(name); err == nil {
				found[name] += fmt.Sprintf(" %x", sha256.Sum256(text))
			}
			return nil
		}))
	}
	entries, err := os.ReadDir("/")
	must(t, err)
	for _, entry := range entries {
		found["/"+entry.Name()] += entry.Type().String()
	}
	for _, name := range []string{"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/sysrq"} {
		text, _ := os.ReadFile(name)
		found[name] = string(text)
	}
	return found
}

var builtPayload struct {
	sync.Once
	file string
	err  error
}

// payloadOf builds the program of hostile images.
func payloadOf(t *testing.T) string {
	t.Helper()
	if file := os.Getenv(asUser); file != "" {
		return file
	}
	builtPayload.Do(func() {
		dir, err := os.MkdirTemp("", "flex-hostile-")
		builtPayload.file, builtPayload.err = filepath.Join(dir, "payload"), err
		if err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", builtPayload.file, "../../../../test/hostile")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			builtPayload.err = fmt.Errorf("build the program of hostile images: %w\n%s", err, output)
		}
		builtPayload.err = errorsOf(builtPayload.err, os.Chmod(dir, 0o755))
	})
	must(t, builtPayload.err)
	return builtPayload.file
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o755))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// reopenMain is what this program does inside a sandbox where the image has made it its own program: it hands its file on to the
// image's, which could write to it as soon as nobody runs it.
func reopenMain() {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		fmt.Println("held:", err)
		os.Exit(1)
	}
	_, _ = unix.FcntlInt(file.Fd(), unix.F_SETFD, 0)
	fmt.Println("held:", syscall.Exec("/payload", []string{"/payload", "same", strconv.Itoa(int(file.Fd())), os.Getenv(reopen)}, nil))
	os.Exit(1)
}

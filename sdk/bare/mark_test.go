package bare_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// marked runs RequireMark in a new pod, and returns the location that it reported.
func marked(t *testing.T, mark string, request contract.Request, undo bool) (location, notes string, err error) {
	t.Helper()
	root := t.TempDir()
	file := filepath.Join(root, contract.TerminationFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	request.VolumeName = "pvc-1"
	err = bare.RequireMark(root, mark, request, undo, &text)
	return bare.ReportedLocation(root), text.String(), err
}

func provisioned(t *testing.T, mark string) (id string) {
	t.Helper()
	id, notes, err := marked(t, mark, contract.Request{Operation: contract.Provision}, false)
	if err != nil || notes != "" {
		t.Fatalf("provision: %v, %s", err, notes)
	}
	return id
}

// TestRequireMark goes through the life of mounted storage, and has its mount point empty in between.
func TestRequireMark(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, ".mark")
	for _, step := range []struct {
		name      string
		operation contract.Operation
		undo      bool
		code      int
		there     bool
	}{
		{"an undo before the first volume", contract.Delete, true, contract.ExitDone, false},
		{"a delete before the first volume", contract.Delete, false, contract.ExitTryAgain, false},
		{"provision", contract.Provision, false, contract.ExitDone, true},
		{"provision again", contract.Provision, false, contract.ExitDone, true},
		{"expand", contract.Expand, false, contract.ExitDone, true},
		{"delete", contract.Delete, false, contract.ExitDone, true},
		{"undo", contract.Delete, true, contract.ExitDone, true},
		{"list", contract.List, false, contract.ExitDone, true},
	} {
		_, _, got := marked(t, mark, contract.Request{Operation: step.operation}, step.undo)
		_, err := os.Stat(mark)
		if code := bare.ExitCode(got); code != step.code || (err == nil) != step.there {
			t.Errorf("%s: exit code %d (%v), want %d; the mark is there: %t, want %t", step.name, code, got, step.code, err == nil, step.there)
		}
	}
	id := provisioned(t, mark)
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		operation contract.Operation
		location  string
		undo      bool
		want      int
	}{
		{contract.Delete, id, false, contract.ExitTryAgain},
		{contract.Expand, id, false, contract.ExitTryAgain},
		{contract.List, "", false, contract.ExitNotHere},
		{contract.Delete, id, true, contract.ExitTryAgain}, // the attempt that it undoes has seen the mark
	} {
		_, _, err := marked(t, mark, contract.Request{Operation: c.operation, Location: c.location}, c.undo)
		if code := bare.ExitCode(err); code != c.want {
			t.Errorf("%s (undo: %t) at an empty mount point: exit code %d, want %d", c.operation, c.undo, code, c.want)
		}
	}
}

var random = regexp.MustCompile(`^[0-9a-f]{32}$`)

// TestStorageID: where the ID of a storage is, and what becomes of marks that administrators made.
func TestStorageID(t *testing.T) {
	write := func(mark, text string) {
		if err := os.WriteFile(mark, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name    string
		prepare func(mark string)
		id      string // empty for a random one
		in      string // the file that has it
	}{
		{"no mark", func(string) {}, "", ""},
		{"an empty mark", func(mark string) { write(mark, "") }, "", ".id"},
		{"a mark with an ID", func(mark string) { write(mark, "export-7\nthis is the old server's\n") }, "export-7", ""},
		{"an ID without an end of line", func(mark string) { write(mark, "export-7") }, "export-7", ""},
		{"a mark with a sentence", func(mark string) { write(mark, "do not remove\n") }, "", ".id"},
		{"the longest ID", func(mark string) { write(mark, strings.Repeat("x", 64)+"\n") }, strings.Repeat("x", 64), ""},
		{"a line that is too long", func(mark string) { write(mark, strings.Repeat("x", 65)+"\n") }, "", ".id"},
		{"no text", func(mark string) { write(mark, "\x00\x1b[2J\n") }, "", ".id"},
		{"an ID beside the mark", func(mark string) { write(mark, "later"); write(mark+".id", "first\n") }, "first", ".id"},
		{"a directory", func(mark string) {
			if err := os.Mkdir(mark, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "", ".id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mark := filepath.Join(t.TempDir(), ".mark")
			c.prepare(mark)
			before, _ := os.ReadFile(mark)
			id := provisioned(t, mark)
			if c.id != "" && id != c.id || c.id == "" && !random.MatchString(id) {
				t.Errorf("ID %q, want %q", id, c.id)
			}
			text, err := os.ReadFile(mark + c.in)
			if err != nil || !strings.HasPrefix(string(text), id) {
				t.Errorf("file has %q, %v", text, err)
			}
			if after, _ := os.ReadFile(mark); len(before) > 0 && string(before) != string(after) {
				t.Errorf("the mark became %q", after)
			}
			if again := provisioned(t, mark); again != id {
				t.Errorf("the second time it is %q, the first time %q", again, id)
			}
			if left, _ := filepath.Glob(mark + "*.tmp-*"); len(left) > 0 {
				t.Errorf("there is still %v", left)
			}
		})
	}
}

// TestStorageIDAtOnce: pods that meet a fresh storage at once agree on one ID, whether it has a mark or not.
func TestStorageIDAtOnce(t *testing.T) {
	for _, made := range []bool{false, true} {
		for range 50 {
			mark := filepath.Join(t.TempDir(), ".mark")
			if made {
				if err := os.WriteFile(mark, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			ids := make([]string, 4)
			var pods sync.WaitGroup
			for i := range ids {
				pods.Go(func() { ids[i] = provisioned(t, mark) })
			}
			pods.Wait()
			if slices.Sort(ids); ids[0] == "" || ids[0] != ids[len(ids)-1] {
				t.Fatalf("IDs %v", ids)
			}
		}
	}
}

// TestOtherStorage: what is asked of one storage fails on another one that has a mark too, and both are named.
func TestOtherStorage(t *testing.T) {
	here, there := filepath.Join(t.TempDir(), ".mark"), filepath.Join(t.TempDir(), ".mark")
	id, other := provisioned(t, here), provisioned(t, there)
	bareMark := filepath.Join(t.TempDir(), ".mark")
	if err := os.WriteFile(bareMark, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	const before = " is %s, but an earlier attempt worked in %s; mount that one until nothing of volume pvc-1 is left there"
	for _, c := range []struct {
		name      string
		operation contract.Operation
		undo      bool
		mark      string
		want      string
	}{
		{"delete", contract.Delete, false, there, fmt.Sprintf(" is %s, but volume pvc-1 is in %s; mount that one; or if the volume was moved here: kubectl annotate pv pvc-1 flex-provisioner.io/location-", other, id)},
		{"expand", contract.Expand, false, bareMark, fmt.Sprintf(" has no ID, but volume pvc-1 is in %s; mount that one; or if the volume was moved here: kubectl annotate pv pvc-1 flex-provisioner.io/location-", id)},
		{"undo", contract.Delete, true, there, fmt.Sprintf(before, other, id)},
		{"the next attempt", contract.Provision, false, there, fmt.Sprintf(before, other, id)},
	} {
		_, _, err := marked(t, c.mark, contract.Request{Operation: c.operation, Location: id}, c.undo)
		if want := "the storage at " + filepath.Dir(c.mark) + c.want; err == nil || err.Error() != want || bare.ExitCode(err) != 1 {
			t.Errorf("%s: exit code %d, %v\nwant %s", c.name, bare.ExitCode(err), err, want)
		}
		if _, _, err := marked(t, here, contract.Request{Operation: c.operation, Location: id}, c.undo); err != nil {
			t.Errorf("%s in the right place: %v", c.name, err)
		}
	}
}

// TestSecondMark: only the first mark of an attempt says where the storage is. Others may be on file systems of their own.
func TestSecondMark(t *testing.T) {
	root, first, second := t.TempDir(), filepath.Join(t.TempDir(), ".a"), filepath.Join(t.TempDir(), ".b")
	file := filepath.Join(root, contract.TerminationFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	var id string
	for _, operation := range []contract.Operation{contract.Provision, contract.Delete} {
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{first, second} {
			if err := bare.RequireMark(root, mark, contract.Request{Operation: operation, Location: id, VolumeName: "pvc-1"}, false, io.Discard); err != nil {
				t.Errorf("%s, %s: %v", operation, mark, err)
			}
		}
		id = bare.ReportedLocation(root)
	}
	if text, err := os.ReadFile(first); err != nil || string(text) != id+"\n" {
		t.Errorf("location %q, the first mark has %q, %v", id, text, err)
	}
}

// TestNoID: storage on which no ID can be written is used without one, and that is said.
func TestNoID(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, strings.Repeat("m", 255)) // no file beside it can have a longer name
	if err := os.WriteFile(mark, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	location, notes, err := marked(t, mark, contract.Request{Operation: contract.Provision}, false)
	if err != nil || location != "" || !strings.HasPrefix(notes, "note: the storage at "+dir+" has no ID, by which a delete would know it: open ") {
		t.Errorf("%v, location %q, %s", err, location, notes)
	}
}

func TestCheckMounted(t *testing.T) {
	mounts := []contract.Mount{
		{Claim: "exports", Source: "nfs://10.0.0.1/srv", Path: "/export"},
		{Claim: "inner", Source: "nfs://10.0.0.2/", Path: "/export/inner"},
		{Claim: "six", Source: "nfs://[fd00::1]/srv", Path: "/six"},
		{Claim: "csi", Source: "csi:nfs.csi.k8s.io/x", Path: "/csi"},
		{Claim: "new", Path: "/new"},
		{Path: "/srv"},
	}
	const alike = ": let mount-claims mount that one; if both are the same, write them alike"
	for _, c := range []struct{ path, export, want string }{
		{"/export", "nfs://10.0.0.1/srv", ""},
		{"/export/", "nfs://10.0.0.1/srv/", ""},
		{"/export/a", "nfs://10.0.0.1/srv/a", ""},
		{"/export/inner", "nfs://10.0.0.2/", ""},
		{"/export/inner/a", "nfs://10.0.0.2/a", ""},
		{"/six", "nfs://fd00::1/srv", ""},
		{"/six", "nfs://[fd00::1]/srv", ""},
		{"/csi", "nfs://10.0.0.1/srv", ""},
		{"/new", "nfs://10.0.0.1/srv", ""},
		{"/srv/a", "nfs://10.0.0.1/srv", ""},
		{"/elsewhere", "nfs://10.0.0.1/srv", ""},
		{"/exports", "nfs://10.0.0.9/srv", ""},
		{"/export", "nfs://10.0.0.1/srv/e2", "claim exports, mounted at /export, is the export nfs://10.0.0.1/srv, but the class names nfs://10.0.0.1/srv/e2" + alike},
		{"/export", "nfs://nfs.example.com/srv", "claim exports, mounted at /export, is the export nfs://10.0.0.1/srv, but the class names nfs://nfs.example.com/srv" + alike},
		{"/export", "10.0.0.1:/srv", `"10.0.0.1:/srv" is no export: write nfs://SERVER/DIRECTORY`},
		{"/export", "nfs:///srv", `"nfs:///srv" is no export: write nfs://SERVER/DIRECTORY`},
	} {
		for operation, code := range map[contract.Operation]int{contract.Provision: contract.ExitRefused, contract.Delete: 1} {
			err := bare.CheckMounted(contract.Request{Operation: operation, Mounts: mounts}, c.path, c.export)
			if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != c.want) {
				t.Errorf("%s, %s: %v, want %s", c.path, c.export, err, c.want)
			}
			if got := bare.ExitCode(err); strings.HasSuffix(c.want, alike) && got != code {
				t.Errorf("%s of %s: exit code %d, want %d", operation, c.path, got, code)
			}
		}
	}
}

// TestUnreadableID: an ID that cannot be read is none that is missing. Another user made the file, or a pod of another
// level of SELinux.
func TestUnreadableID(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	dir := t.TempDir()
	mark := filepath.Join(dir, ".mark")
	id := provisioned(t, mark)
	for parent := dir; parent != os.TempDir(); parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(mark, 0o600); err != nil {
		t.Fatal(err)
	}

	root := t.TempDir()
	requests := []contract.Request{
		{Operation: contract.Provision}, {Operation: contract.Delete, Location: id, VolumeName: "pvc-1"},
	}
	for _, request := range requests {
		err := asNobody(t, func() error { return bare.RequireMark(root, mark, request, false, io.Discard) })
		want := "read the ID of the storage: open " + mark + ": permission denied: let this user read the file; " +
			"where SELinux is enforcing, pods of one class need one level (selinux-level)"
		if err == nil || err.Error() != want || bare.ExitCode(err) != 1 {
			t.Errorf("%s: exit code %d, %v\nwant %s", request.Operation, bare.ExitCode(err), err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("there is %v, %v, want the mark alone", left, err)
	}

	// A storage in which this user may not write may be an empty mount point: that is tried again.
	other := filepath.Join(dir, ".other")
	err := asNobody(t, func() error { return bare.RequireMark(root, other, requests[0], false, io.Discard) })
	want := "mark the storage: open " + other + ": permission denied; is it mounted at " + dir + ", and may this user write to it?"
	if err == nil || err.Error() != want || bare.ExitCode(err) != contract.ExitTryAgain {
		t.Errorf("exit code %d, %v\nwant %s", bare.ExitCode(err), err, want)
	}
}

// asNobody runs a function by a thread without root's rights to files. The thread ends with it.
func asNobody(t *testing.T, do func() error) error {
	t.Helper()
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := syscall.Setfsuid(65534)
		if err == nil {
			err = do()
		}
		result <- err
	}()
	return <-result
}

//go:build conformance

// These tests mount file systems, in a mount namespace of their own. They need root, loop devices and btrfs-progs.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

const ownMounts = "BTRFS_TEST_OWN_MOUNTS"

func TestMain(m *testing.M) {
	if os.Getenv(ownMounts) != "" {
		os.Exit(m.Run())
	}
	again := exec.Command(os.Args[0], os.Args[1:]...)
	again.Env = append(os.Environ(), ownMounts+"=1")
	again.Stdout, again.Stderr = os.Stdout, os.Stderr
	again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := again.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// disk of a node.
type testDisk struct {
	root   string
	server *sdktest.Server
}

func newServer(t *testing.T) *sdktest.Server {
	server := sdktest.NewServer(t)
	t.Setenv("FLEX_KUBE_API", server.URL)
	return server
}

func newDisk(t *testing.T, fsType string, server *sdktest.Server) testDisk {
	t.Helper()
	image, root := filepath.Join(t.TempDir(), "disk"), t.TempDir()
	run(t, "truncate", "-s", "512M", image)
	run(t, "mkfs."+fsType, "-q", image)
	run(t, "mount", "-o", "loop", image, root)
	t.Cleanup(func() { run(t, "umount", root) })
	return testDisk{root, server}
}

const mebi = 1 << 20

// uid is the claim's UID of the n-th volume.
func uid(n int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", n) }

func (d testDisk) dir(n int) string { return filepath.Join(d.root, "pvc-"+uid(n)) }

func (d testDisk) request(op contract.Operation, n int, size int64) contract.Request {
	r := sdktest.Provision(map[string]string{"root": d.root})
	r.Operation, r.SizeBytes, r.Claim.UID, r.VolumeName = op, size, uid(n), "pvc-"+uid(n)
	return r
}

// ask runs the provisioner. Its error is as users see it, with the exit code before it.
func (d testDisk) ask(t *testing.T, request contract.Request, volume *corev1.PersistentVolume) string {
	t.Helper()
	pod := sdktest.NewPod(t, request, volume, d.server)
	err := sdk.Run(context.Background(), pod.Root, provisioner{node: sdktest.Node, root: pod.Root})
	if err == nil {
		return ""
	}
	return fmt.Sprintf("%d %s", sdk.ExitCode(err), strings.ReplaceAll(err.Error(), d.root, "ROOT"))
}

func (d testDisk) provision(t *testing.T, n int, size int64) string {
	t.Helper()
	request := d.request(contract.Provision, n, size)
	return d.ask(t, request, sdktest.Skeleton(request))
}

func (d testDisk) delete(t *testing.T, n int) string {
	t.Helper()
	request := d.request(contract.Delete, n, 0)
	volume := sdktest.Skeleton(request)
	volume.Spec.NodeAffinity = sdk.NodeAffinity(corev1.LabelHostname, sdktest.Node)
	return d.ask(t, request, volume)
}

func (d testDisk) undo(t *testing.T, n int) string {
	t.Helper()
	return d.ask(t, d.request(contract.Delete, n, 0), nil)
}

func (d testDisk) expand(t *testing.T, n int, from, to int64) string {
	t.Helper()
	request := d.request(contract.Expand, n, to)
	request.CurrentSizeBytes = from
	return d.ask(t, request, sdktest.Skeleton(request))
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// write fills a file until it has the size or the disk has no more, and says how much that was.
func write(t *testing.T, path string, size int64) int64 {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		if errors.Is(err, syscall.EDQUOT) {
			return 0
		}
		t.Fatal(err)
	}
	defer file.Close()
	block := make([]byte, mebi)
	for written := int64(0); written < size; written += mebi {
		_, err := file.Write(block)
		if err == nil {
			err = file.Sync()
		}
		if errors.Is(err, syscall.EDQUOT) {
			return written
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return size
}

func TestSizesHold(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, 40*mebi), "")
	if got := write(t, d.dir(1)+"/data", 60*mebi); got > 40*mebi || got < 38*mebi {
		t.Errorf("a volume of 40Mi took %d bytes", got)
	}
	want(t, "expand", d.expand(t, 1, 40*mebi, 60*mebi), "")
	// An application makes a subvolume inside its own, as any user may.
	run(t, "btrfs", "subvolume", "create", d.dir(1)+"/inside")
	if got := write(t, d.dir(1)+"/inside/data", 60*mebi); got > 20*mebi || got < 18*mebi {
		t.Errorf("20Mi more took %d bytes", got)
	}
	want(t, "delete of a full volume", d.delete(t, 1), "")
	if _, err := os.Lstat(d.dir(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the volume is there after its delete: %v", err)
	}
}

func TestRoom(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "the first", d.provision(t, 1, 200*mebi), "")
	// What is promised counts, not what is written.
	got := d.provision(t, 2, 300*mebi)
	if !strings.HasPrefix(got, "69 ROOT on node node-1 has room for ") || !strings.HasSuffix(got, "Mi, and the claim asks for 300Mi") {
		t.Errorf("the second: %q", got)
	}
	if _, err := os.Lstat(d.dir(2)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a volume without room is there: %v", err)
	}
	got = d.expand(t, 1, 200*mebi, 500*mebi)
	if !strings.HasPrefix(got, "64 ROOT on node node-1 has room for ") || !strings.HasSuffix(got, "Mi more, and the claim asks for 300Mi more") {
		t.Errorf("expand: %q", got)
	}
	want(t, "delete", d.delete(t, 1), "")
	want(t, "the second in the room of the first", d.provision(t, 2, 300*mebi), "")
}

// The audit prints btrfs subvolume delete.
func TestRoomOfRemoved(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	run(t, "mount", "-o", "remount,commit=1", d.root) // the kernel frees what is deleted every so many seconds
	want(t, "the first", d.provision(t, 1, 200*mebi), "")
	want(t, "the second", d.provision(t, 2, 100*mebi), "")
	run(t, "btrfs", "subvolume", "delete", d.dir(1))
	run(t, "btrfs", "subvolume", "sync", d.root)
	want(t, "expand into the room of the first", d.expand(t, 2, 100*mebi, 300*mebi), "")
	run(t, "btrfs", "subvolume", "delete", d.dir(2))
	run(t, "btrfs", "subvolume", "sync", d.root)
	want(t, "the third in the room of the second", d.provision(t, 3, 300*mebi), "")
}

func TestAgain(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() { want(t, "provision", d.provision(t, 1, 200*mebi), "") })
	}
	group.Wait()
	if _, err := os.Stat(d.dir(1)); err != nil {
		t.Error(err)
	}
	for range 2 {
		want(t, "expand", d.expand(t, 1, 200*mebi, 250*mebi), "")
	}
	for range 2 {
		want(t, "delete", d.delete(t, 1), "")
		want(t, "undo", d.undo(t, 1), "")
	}
	// A volume that an undo has begun to remove is a volume again.
	want(t, "provision after that", d.provision(t, 1, 200*mebi), "")
	if got := write(t, d.dir(1)+"/data", 220*mebi); got > 200*mebi {
		t.Errorf("a volume of 200Mi took %d bytes", got)
	}
}

func TestForeign(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, 20*mebi), "")
	elsewhere := t.TempDir()
	if err := os.Symlink(elsewhere, d.dir(2)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(d.dir(3), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "btrfs", "subvolume", "create", d.dir(4))
	for n := 2; n <= 4; n++ {
		notOurs := "1 ROOT/pvc-" + uid(n) + " is not ours; move it out of the way"
		want(t, "provision", d.provision(t, n, 20*mebi), notOurs)
		want(t, "delete", d.delete(t, n), notOurs)
		want(t, "undo", d.undo(t, n), notOurs)
		if _, err := os.Lstat(d.dir(n)); err != nil {
			t.Error(err)
		}
	}
	run(t, "btrfs", "qgroup", "create", "1/7", d.root)
	want(t, "one more", d.provision(t, 5, 20*mebi), "")
	if groups := run(t, "btrfs", "qgroup", "show", d.root); !strings.Contains(groups, "1/7 ") {
		t.Errorf("somebody's quota group is gone:\n%s", groups)
	}
}

func TestWrongDisk(t *testing.T) {
	ext4 := newDisk(t, "ext4", newServer(t))
	want(t, "provision", ext4.provision(t, 1, mebi), "69 ROOT on node node-1 is not the root of a btrfs file system; is its disk mounted?")
	want(t, "delete", ext4.delete(t, 1), "75 ROOT on node node-1 is not the root of a btrfs file system; is its disk mounted?")
	gone := testDisk{t.TempDir() + "/gone", ext4.server}
	want(t, "provision", gone.provision(t, 1, mebi), `69 node node-1 has no directory ROOT; does key "host-path" name it?`)
	want(t, "delete", gone.delete(t, 1), `75 node node-1 has no directory ROOT; does key "host-path" name it?`)
	fresh := newDisk(t, "btrfs", ext4.server)
	// The kubelet makes a directory where none is.
	made := testDisk{fresh.root + "/made", ext4.server}
	if err := os.Mkdir(made.root, 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, "provision", made.provision(t, 1, mebi), "69 ROOT on node node-1 is not the root of a btrfs file system; is its disk mounted?")
	want(t, "delete", made.delete(t, 1), "75 ROOT on node node-1 is not the root of a btrfs file system; is its disk mounted?")
	want(t, "delete", fresh.delete(t, 1), "75 ROOT on node node-1 has no quotas, so no volume was made there; is its disk mounted?")
	run(t, "btrfs", "quota", "enable", fresh.root)
	want(t, "provision", fresh.provision(t, 1, mebi), `64 ROOT on node node-1 has quotas of the older kind, which leave out what an application has in subvolumes of its own: run "btrfs quota disable ROOT", and simple quotas are turned on`)
	other := fresh.request(contract.Delete, 1, 0)
	volume := sdktest.Skeleton(other)
	volume.Spec.NodeAffinity = sdk.NodeAffinity(corev1.LabelHostname, "node-2")
	want(t, "delete elsewhere", fresh.ask(t, other, volume), "69 volume pvc-"+uid(1)+" is on node node-2, and this is node node-1")
}

// The disk on which the volume was made is not the one that is mounted, which has volumes of its own.
func TestOtherDisk(t *testing.T) {
	server := newServer(t)
	d, other := newDisk(t, "btrfs", server), newDisk(t, "btrfs", server)
	id := func(d testDisk) string { return strings.TrimSpace(run(t, "findmnt", "-no", "UUID", d.root)) }
	want(t, "provision", d.provision(t, 1, mebi), "")
	want(t, "provision on the other disk", other.provision(t, 2, mebi), "")
	var volume corev1.PersistentVolume
	if err := json.Unmarshal(server.Volume("pvc-"+uid(1)), &volume); err != nil {
		t.Fatal(err)
	}
	if got := volume.Annotations[contract.AnnLocation]; got != id(d) {
		t.Errorf("the volume is in %q, want %s", got, id(d))
	}
	for _, op := range []contract.Operation{contract.Delete, contract.Expand, contract.Provision} {
		request := other.request(op, 1, 2*mebi)
		request.Location = id(d)
		want(t, string(op), other.ask(t, request, &volume), "1 ROOT on node node-1 is file system "+id(other)+", but volume pvc-"+uid(1)+" is on "+id(d)+"; is that one mounted?")
	}
	request := d.request(contract.Expand, 1, 2*mebi)
	request.Location = id(d)
	want(t, "expand on its own disk", d.ask(t, request, &volume), "")
	if _, err := os.Stat(d.dir(1)); err != nil {
		t.Error(err)
	}
	volume.Spec.NodeAffinity = sdk.NodeAffinity(corev1.LabelHostname, "host-1") // the label, which is not the node's name
	request = d.request(contract.Delete, 1, mebi)
	request.Location = id(d)
	want(t, "delete on its own disk", d.ask(t, request, &volume), "")
	if _, err := os.Stat(d.dir(1)); !os.IsNotExist(err) {
		t.Errorf("after the delete: %v", err)
	}
}

func TestBadProperties(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	for _, c := range []struct {
		properties map[string]string
		want       string
	}{
		{map[string]string{}, `64 property "root" is missing: name a directory of the node, the same as in key "host-path"`},
		{map[string]string{"root": "/a/../b"}, `64 property "root" is "/a/../b": write an absolute path of letters, digits, '.', '_' and '-', without ".." or a '/' at its end`},
		{map[string]string{"root": d.root, "mod": "0770"}, `64 not known: "mod"; the provisioner knows the properties mode, root, smartclone: correct the class's ConfigMap or StorageClass`},
		{map[string]string{"root": d.root, "mode": "rwx"}, `64 property "mode" is "rwx": write octal digits such as 0777`},
	} {
		request := d.request(contract.Provision, 1, mebi)
		request.Properties = c.properties
		want(t, "provision", d.ask(t, request, sdktest.Skeleton(request)), c.want)
	}
}

func TestClone(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, 40*mebi), "")
	write(t, d.dir(1)+"/data", 20*mebi)
	request := d.request(contract.Provision, 2, 60*mebi)
	request.Source = &contract.Source{Namespace: "team-a", Name: "data", VolumeName: "pvc-" + uid(1)}
	want(t, "clone", d.ask(t, request, sdktest.Skeleton(request)), "")
	if got := write(t, d.dir(2)+"/more", 80*mebi); got > 60*mebi {
		t.Errorf("a clone of 60Mi took %d bytes", got)
	}
	want(t, "delete of the source", d.delete(t, 1), "")
	if info, err := os.Stat(d.dir(2) + "/data"); err != nil || info.Size() != 20*mebi {
		t.Errorf("the clone has no data: %v", err)
	}
	run(t, "btrfs", "subvolume", "create", d.dir(8))
	request = d.request(contract.Provision, 3, 60*mebi)
	request.Source = &contract.Source{VolumeName: "pvc-" + uid(8)}
	want(t, "clone of what is not ours", d.ask(t, request, sdktest.Skeleton(request)), "1 ROOT/pvc-"+uid(8)+" is not ours; move it out of the way")
	request.Source = &contract.Source{VolumeName: "pvc-" + uid(9)}
	want(t, "clone of what is elsewhere", d.ask(t, request, sdktest.Skeleton(request)), "1 node node-1 has no volume pvc-"+uid(9)+" to clone: a clone has to be on the node of its source")
	want(t, "undo", d.undo(t, 3), "")
}

func TestList(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, mebi), "")
	run(t, "btrfs", "subvolume", "create", d.dir(2))
	storage, err := provisioner{node: sdktest.Node}.List(context.Background(), sdktest.List(map[string]string{"root": d.root}))
	if err != nil || len(storage) != 1 || storage[0] != (sdk.Storage{Name: "pvc-" + uid(1), Remove: "ssh node-1 btrfs subvolume delete " + d.dir(1)}) {
		t.Errorf("storage %v, error %v", storage, err)
	}
}

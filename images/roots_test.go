package images

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// newRoots is one class with two roots, as each of them sees it. The second one has the most free space.
func newRoots(t *testing.T, more map[string]string) (a, b class) {
	a = newHostpath(t, more)
	b = a
	b.mount = t.TempDir()
	b.base = b.mount
	a.script, b.script = "testdata/room.sh", "testdata/room.sh"
	a.properties["root"] = a.mount + " " + b.mount
	a.room(t, "1 * 4096")
	b.room(t, "2 * 4096")
	return a, b
}

// room is the free space of a root, as stat says it.
func (c class) room(t *testing.T, free string) {
	t.Helper()
	if err := os.WriteFile(c.mount+".free", []byte(free), 0o600); err != nil {
		t.Fatal(err)
	}
}

// made is the volume that a provision made.
func (c class) made(t *testing.T) *corev1.PersistentVolume {
	t.Helper()
	var volume corev1.PersistentVolume
	if err := json.Unmarshal(c.api.Volume(c.name), &volume); err != nil {
		t.Fatal(err)
	}
	return &volume
}

// after is a pod for what comes after an attempt that worked in a location. volume is nil for an undo.
func (c class) after(t *testing.T, request contract.Request, location string, volume *corev1.PersistentVolume) sdktest.Pod {
	request = c.about(request)
	request.Location = location
	return sdktest.NewPod(t, request, volume, c.api)
}

func (c class) wantEmpty(t *testing.T) {
	t.Helper()
	if files, err := os.ReadDir(c.mount); err != nil || len(files) > 0 {
		t.Errorf("%s has %v, %v", c.mount, files, err)
	}
}

// A volume is made where there is most room, and stays there, whatever room there is later.
func TestRoots(t *testing.T) {
	for _, more := range []map[string]string{nil, {"path-pattern": byName}} {
		a, b := newRoots(t, more)
		b.properties["snapshot-copy"] = "full"
		b.fill(t)
		b.check(t, 0o777)
		a.wantEmpty(t)

		a.room(t, "3 * 4096")
		b.run(t, b.provision(t), 0).Expect(t, 0, "exists already")
		volume := b.made(t)
		location := volume.Annotations[contract.AnnLocation]
		b.run(t, b.after(t, sdktest.Expand(b.properties), location, volume), 0).Expect(t, 0, "")
		put(t, b.dir(), "before")
		b.run(t, b.take(t), 0).Expect(t, 0, "")
		a.wantEmpty(t)
		restored := b.restored()
		restored.run(t, restored.restore(t), 0).Expect(t, 0, "created")
		if got := content(t, restored.dir()); got != "before" {
			t.Errorf("restored is %q", got)
		}
		a.wantEmpty(t)
		b.run(t, b.drop(t), 0).Expect(t, 0, "")
		b.wantSnapshots(t, "")

		b.run(t, b.after(t, sdktest.Delete(b.properties), location, volume), 0).Expect(t, 0, "")
		b.checkGone(t)
		next := a.next()
		next.run(t, next.provision(t), 0).Expect(t, 0, "created")
		next.check(t, 0o777)
	}
}

// The free space is that of the file systems.
func TestRootsOnDisks(t *testing.T) {
	a, b := newRoots(t, nil)
	memory, err := os.MkdirTemp("/dev/shm", "roots")
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(memory)
	a.script, a.properties["root"] = "", memory+" "+b.mount
	a.mount = memory
	most := a
	if free(t, b) > free(t, a) {
		most = b
	}
	a.run(t, a.provision(t), 0).Expect(t, 0, "created")
	most.check(t, 0o777)
}

func free(t *testing.T, c class) uint64 {
	t.Helper()
	var of syscall.Statfs_t
	if err := syscall.Statfs(c.mount, &of); err != nil {
		t.Fatal(err)
	}
	return of.Bavail * uint64(of.Bsize)
}

// Of roots of one file system the first one is chosen.
func TestRootsOnOneDisk(t *testing.T) {
	a, b := newRoots(t, nil)
	a.script = ""
	a.run(t, a.provision(t), 0).Expect(t, 0, "created")
	a.check(t, 0o777)
	b.wantEmpty(t)
}

// Each node has other ones of the roots.
func TestRootsOfNode(t *testing.T) {
	a, b := newRoots(t, nil)
	if err := os.Remove(b.mount); err != nil {
		t.Fatal(err)
	}
	a.run(t, a.provision(t), 0).Expect(t, 0, "created")
	a.check(t, 0o777)
	a.run(t, a.delete(t), 0).Expect(t, 0, "")
	a.checkGone(t)
	a.run(t, a.undo(t), 0).Expect(t, 0, "")
	if err := os.RemoveAll(a.mount); err != nil {
		t.Fatal(err)
	}
	a.run(t, a.provision(t), 0).Expect(t, 69, "node node-1 has no directory "+a.mount+" or "+b.mount+`; does key "host-path" name it?`)
	a.run(t, a.undo(t), 0).Expect(t, 75, "node node-1 has no directory "+a.mount+"; is its disk mounted?")
}

// A disk that is away is not one whose volumes are gone, and another disk of the node is none in its place.
func TestRootsUnreachable(t *testing.T) {
	a, b := newRoots(t, map[string]string{"snapshot-copy": "full"})
	other := b.next()
	other.run(t, other.provision(t), 0).Expect(t, 0, "created")
	a.room(t, "3 * 4096")
	a.fill(t)
	volume := a.made(t)
	location := volume.Annotations[contract.AnnLocation]
	noDisk := ".flex-provisioner is not on node node-1; is the disk of " + a.mount + " mounted?"
	away := a.mount + "-away"
	if err := os.Rename(a.mount, away); err != nil {
		t.Fatal(err)
	}
	check := func(missing string) {
		t.Helper()
		a.run(t, a.after(t, sdktest.Delete(a.properties), location, volume), 0).Expect(t, 75, missing)
		a.run(t, a.after(t, sdktest.DeleteSnapshot(a.properties), location, volume), 0).Expect(t, 75, noDisk)
		a.run(t, a.after(t, sdktest.Expand(a.properties), location, volume), 0).Expect(t, 1, a.missing)
		a.run(t, a.after(t, sdktest.Snapshot(a.properties), location, volume), 0).Expect(t, 1, a.missing)
	}
	check("node node-1 has no directory " + a.mount + "; is its disk mounted?")
	elsewhere := "but an earlier attempt worked in " + location
	for _, request := range []contract.Request{sdktest.Provision(a.properties), sdktest.Delete(a.properties)} {
		var skeleton *corev1.PersistentVolume
		if request.Operation == contract.Provision {
			skeleton = sdktest.Skeleton(request)
		}
		a.run(t, a.after(t, request, location, skeleton), 0).Expect(t, 1, elsewhere)
	}
	b.checkGone(t)
	if err := os.Mkdir(a.mount, 0o777); err != nil { // its mount point
		t.Fatal(err)
	}
	check(noDisk)
	a.wantEmpty(t)
	if err := os.Remove(a.mount); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(away, a.mount); err != nil {
		t.Fatal(err)
	}
	a.check(t, 0o777)

	a.properties["root"] = b.mount
	for _, request := range []contract.Request{sdktest.Delete(a.properties), sdktest.Expand(a.properties), sdktest.Snapshot(a.properties)} {
		a.run(t, a.after(t, request, location, volume), 0).Expect(t, 1,
			"volume "+a.name+" is in directory "+a.mount+`, and property "root" is "`+b.mount+`": add the directory to it until the volume is deleted`)
	}
	a.properties["root"] = b.mount + " " + a.mount
	a.run(t, a.after(t, sdktest.Delete(a.properties), location, volume), 0).Expect(t, 0, "")
	a.checkGone(t)
	if _, err := os.Stat(other.mark()); err != nil {
		t.Errorf("the delete went too far: %v", err)
	}
}

// No path of a volume leads out of the roots.
func TestRootsForgedPath(t *testing.T) {
	a, b := newRoots(t, nil)
	outside := newHostpath(t, nil)
	outside.fill(t)
	for _, path := range []string{outside.dir(), a.mount + " " + b.mount + "/" + a.name, a.mount + "/../" + a.name, a.name, "/" + a.name} {
		pod := a.after(t, sdktest.Delete(a.properties), "", localAt(a, path))
		a.run(t, pod, 0).Expect(t, 1, `, and property "root" is "`)
	}
	outside.check(t, 0o777)
}

func localAt(c class, path string) *corev1.PersistentVolume {
	volume := sdktest.Skeleton(sdktest.Delete(nil))
	volume.Spec.PersistentVolumeSource, volume.Spec.NodeAffinity = c.source()
	volume.Spec.Local.Path = path
	return volume
}

// Killed before and after every command, while the room changes, a provision gets there in the root of the attempt before, and an undo leaves
// nothing in any. The location of the attempt is lost with its node.
func TestRootsKilled(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		for _, lost := range []bool{false, true} {
			a, b := newRoots(t, map[string]string{"path-pattern": byName})
			killed := b.provision(t)
			ended = b.run(t, killed, at).Code != sdktest.Killed
			if ended && at < 8 {
				t.Fatalf("the script has only %d points", at-1)
			}
			location := killed.Location(t)
			if lost {
				location = ""
			}
			a.room(t, "3 * 4096")
			request := b.about(sdktest.Provision(b.properties))
			next := b.after(t, request, location, sdktest.Skeleton(request))
			b.run(t, next, 0).Expect(t, 0, "persistentvolume/"+b.name)
			if a, b := a.parts(), b.parts(); a+b != 3 || a*b != 0 {
				t.Errorf("killed at %d: one root has %d of a directory, a mark and a link, and the other one %d", at, a, b)
			}
			if location != "" && next.Location(t) != location {
				t.Errorf("killed at %d: an attempt worked in %q, the next one in %q", at, location, next.Location(t))
			}
			b.run(t, b.after(t, sdktest.Delete(b.properties), next.Location(t), nil), 0).Expect(t, 0, "")
			a.checkGone(t)
			b.checkGone(t)
		}
	}
}

// parts counts what there is of the volume: its directory, its mark, and its link to the name.
func (c class) parts() (n int) {
	for _, path := range []string{c.dir(), c.mark(), c.held()} {
		if _, err := os.Lstat(path); err == nil {
			n++
		}
	}
	return n
}

// An undo removes what attempts left in any root, also where the end of one was lost.
func TestRootsUndo(t *testing.T) {
	a, b := newRoots(t, nil)
	roots := a.properties["root"]
	var location string
	for _, c := range []class{a, b} {
		c.properties["root"] = c.mount
		pod := c.provision(t)
		c.run(t, pod, 0)
		location = pod.Location(t)
	}
	a.properties["root"] = roots
	a.run(t, a.after(t, sdktest.Delete(a.properties), location, nil), 0).Expect(t, 0, "")
	a.checkGone(t)
	b.checkGone(t)
}

// What has the name of a volume decides for its root.
func TestRootsByName(t *testing.T) {
	a, b := newRoots(t, map[string]string{"path-pattern": byName, "keep-on-delete": "true", "snapshot-copy": "full"})
	b.fill(t)
	a.room(t, "3 * 4096")
	second := b.next()
	second.run(t, second.provision(t), 0).Expect(t, 1, b.dir()+" on node node-1"+ofAnother)
	b.run(t, b.delete(t), 0).Expect(t, 0, "")
	second.run(t, second.provision(t), 0).Expect(t, 0, "created")
	b.wantFile(t, "for the next claim of the name")

	// The name of the restored volume is kept in one root, and its snapshot is in the other one.
	put(t, second.dir(), "before")
	second.run(t, second.take(t), 0).Expect(t, 0, "")
	r := a.restored()
	if err := os.MkdirAll(filepath.Join(a.mount, ".flex-provisioner", "kept"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("team-a/restored", filepath.Join(a.mount, ".flex-provisioner", "kept", r.dirname())); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(r.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	r.run(t, r.restore(t), 0).Expect(t, 1, r.dir()+" on node node-1 is kept from an earlier claim, and nothing is restored into it; move it out of the way")
	if err := os.Remove(r.dir()); err != nil {
		t.Fatal(err)
	}
	r.run(t, r.restore(t), 0).Expect(t, 0, "created")
	if got := content(t, r.dir()); got != "before" { // the attempt before has its mark there
		t.Errorf("restored is %q", got)
	}

	// Another volume has the name, and no directory yet.
	a, b = newRoots(t, map[string]string{"path-pattern": byName})
	a.room(t, "3 * 4096")
	if err := os.MkdirAll(filepath.Dir(b.held()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(another, b.held()); err != nil {
		t.Fatal(err)
	}
	b.run(t, b.provision(t), 0).Expect(t, 1, b.dir()+" on node node-1"+ofAnother)

	a, b = newRoots(t, nil)
	writeFile(t, filepath.Join(a.dir(), "file"))
	a.run(t, a.provision(t), 0).Expect(t, 1, a.dir()+" on node node-1 is not ours; move it out of the way")
	b.wantEmpty(t)
}

// An administrator's snapshot of one name may be in each root. All are removed.
func TestRootsSnapshotByHand(t *testing.T) {
	a, b := newRoots(t, nil)
	for _, c := range []class{a, b} {
		if err := os.MkdirAll(c.snapshots()+"/golden", 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, c.snapshots()+"/golden", "golden in "+c.mount)
	}
	restore := sdktest.Restore(b.properties)
	restore.Source.VolumeName, restore.Source.Snapshot = "", "golden"
	b.run(t, sdktest.NewPod(t, restore, sdktest.Skeleton(restore), b.api), 0).Expect(t, 0, "created")
	if got, want := content(t, b.restored().dir()), "golden in "+b.mount; got != want {
		t.Errorf("restored is %q, want %q", got, want)
	}
	drop := sdktest.DeleteSnapshot(b.properties)
	drop.VolumeName, drop.Snapshot.Name = "", "golden"
	b.run(t, sdktest.NewPod(t, drop, nil, nil), 0).Expect(t, 0, "")
	a.wantSnapshots(t, "")
	b.wantSnapshots(t, "")
	b.run(t, sdktest.NewPod(t, drop, nil, nil), 0).Expect(t, 69, "snapshot golden is not on node node-1, and no record says on which node it is")
}

// What the disks that are there have is listed, and that one may be away is said.
func TestRootsList(t *testing.T) {
	a, b := newRoots(t, nil)
	list := func() sdktest.Result { return b.run(t, sdktest.NewPod(t, sdktest.List(b.properties), nil, nil), 0) }
	line := func(c class) string {
		return "storage " + c.name + " ssh node-1 rm -rf -- " + c.dir() + " " + c.mark() + "\n"
	}
	marks := filepath.Dir(a.mark())
	list().Expect(t, 69, "node node-1 has no "+marks+" or "+filepath.Dir(b.mark())+": nothing was made here, or its disk is not mounted")
	b.run(t, b.provision(t), 0).Expect(t, 0, "created")
	got := list()
	got.Expect(t, 69, "node node-1 has no "+marks+": nothing was made here, or its disk is not mounted")
	if !strings.Contains(got.Output, line(b)) {
		t.Errorf("printed %q", got.Output)
	}
	next := a.next()
	a.room(t, "3 * 4096")
	next.run(t, next.provision(t), 0).Expect(t, 0, "created")
	if got, want := list(), line(next)+line(b); got.Code != 0 || got.Output != want {
		t.Errorf("ended with %d and printed %q, want %q", got.Code, got.Output, want)
	}
}

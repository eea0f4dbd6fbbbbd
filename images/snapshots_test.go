package images

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// snapshot is a pod for one of the operations of snapshots of the class's volume.
func (c class) snapshot(t *testing.T, request contract.Request) sdktest.Pod {
	request = c.about(request)
	volume := sdktest.Skeleton(request)
	volume.Spec.PersistentVolumeSource, volume.Spec.NodeAffinity = c.source()
	return sdktest.NewPod(t, request, volume, nil)
}

func (c class) take(t *testing.T) sdktest.Pod { return c.snapshot(t, sdktest.Snapshot(c.properties)) }

func (c class) drop(t *testing.T) sdktest.Pod {
	return c.snapshot(t, sdktest.DeleteSnapshot(c.properties))
}

// restored is the class for the claim that has the snapshot's data.
func (c class) restored() class {
	c.name = sdktest.Restore(nil).VolumeName
	if c.directory != "" {
		c.directory = "team-a.restored"
	}
	return c
}

func (c class) restore(t *testing.T) sdktest.Pod {
	request := sdktest.Restore(c.properties)
	return sdktest.NewPod(t, request, sdktest.Skeleton(request), c.api)
}

func (c class) snapshots() string { return filepath.Join(c.mount, ".flex-provisioner", "snapshots") }

// content is what is in the file of a volume or snapshot.
func content(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func put(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// eachFull is each, with classes that allow snapshots to copy all data.
func eachFull(t *testing.T, test func(t *testing.T, newClass func() class)) {
	each(t, func(t *testing.T, newClass func() class) {
		test(t, func() class {
			c := newClass()
			c.properties["snapshot-copy"] = "full"
			return c
		})
	})
}

// eachKind is eachFull for one class of each image, for tests that take long.
func eachKind(t *testing.T, test func(t *testing.T, newClass func() class)) {
	t.Run("hostpath by name", func(t *testing.T) {
		test(t, func() class {
			return newHostpath(t, map[string]string{"path-pattern": byName, "snapshot-copy": "full"})
		})
	})
	t.Run("nfs-subdir", func(t *testing.T) {
		test(t, func() class { return newNFS(t, map[string]string{"snapshot-copy": "full"}) })
	})
}

func (c class) wantSnapshots(t *testing.T, want string) {
	t.Helper()
	entries, err := os.ReadDir(c.snapshots())
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("there are the snapshots %q, want %q", got, want)
	}
}

func TestSnapshot(t *testing.T) {
	eachFull(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		put(t, c.dir(), "before")
		c.run(t, c.take(t), 0).Expect(t, 0, "")
		put(t, c.dir(), "after")
		c.run(t, c.take(t), 0).Expect(t, 0, "")
		c.wantSnapshots(t, sdktest.SnapshotName)
		r := c.restored()
		for _, want := range []string{"created", "exists already"} {
			c.run(t, c.restore(t), 0).Expect(t, 0, "persistentvolume/"+r.name+" "+want)
			if got := content(t, r.dir()); got != "before" {
				t.Errorf("restored is %q", got)
			}
		}
		r.check(t, 0o777)
		if got := content(t, c.dir()); got != "after" {
			t.Errorf("the volume has %q", got)
		}
		c.run(t, c.delete(t), 0).Expect(t, 0, "")
		c.run(t, r.delete(t), 0).Expect(t, 0, "")
		c.wantSnapshots(t, sdktest.SnapshotName)
		list := c.run(t, sdktest.NewPod(t, sdktest.List(c.properties), nil, nil), 0)
		list.Expect(t, 0, "")
		for range 2 {
			c.run(t, c.drop(t), 0).Expect(t, 0, "")
			c.wantSnapshots(t, "")
		}
	})
}

// TestSnapshotKilled: whatever was killed before, a snapshot is whole or not there.
func TestSnapshotKilled(t *testing.T) {
	eachKind(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		put(t, c.dir(), "before")
		for at, ended := 1, false; !ended; at++ {
			ended = c.run(t, c.take(t), at).Code != sdktest.Killed
			if err := os.MkdirAll(c.snapshots()+"/."+sdktest.SnapshotName+".copy-1/half", 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, c.snapshots(), "") // nothing of ours
			c.run(t, c.take(t), 0).Expect(t, 0, "")
			if got := content(t, c.snapshots()+"/"+sdktest.SnapshotName); got != "before" {
				t.Fatalf("killed at %d: it has %q", at, got)
			}
			c.run(t, c.drop(t), 0).Expect(t, 0, "")
			c.wantSnapshots(t, "file")
		}
	})
}

func TestDeleteSnapshotKilled(t *testing.T) {
	eachKind(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		for at, ended := 1, false; !ended; at++ {
			c.run(t, c.take(t), 0).Expect(t, 0, "")
			ended = c.run(t, c.drop(t), at).Code != sdktest.Killed
			if ended && at < 8 {
				t.Fatalf("the script has only %d points", at-1)
			}
			c.run(t, c.drop(t), 0).Expect(t, 0, "")
			c.wantSnapshots(t, "")
		}
	})
}

// TestRestoreKilled: the next attempt has the data, and an undo leaves nothing.
func TestRestoreKilled(t *testing.T) {
	eachKind(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		put(t, c.dir(), "before")
		c.run(t, c.take(t), 0).Expect(t, 0, "")
		r := c.restored()
		for at, ended := 1, false; !ended; at++ {
			ended = c.run(t, c.restore(t), at).Code != sdktest.Killed
			c.run(t, c.restore(t), 0).Expect(t, 0, "persistentvolume/"+r.name)
			if got := content(t, r.dir()); got != "before" {
				t.Fatalf("killed at %d: it has %q", at, got)
			}
			c.run(t, r.delete(t), 0).Expect(t, 0, "")
			r.checkGone(t)

			c.run(t, c.restore(t), at)
			c.run(t, r.undo(t), 0).Expect(t, 0, "")
			if _, err := os.Lstat(r.mark()); err == nil {
				t.Fatalf("killed at %d: an undo leaves the mark", at)
			}
		}
	})
}

// TestSnapshotRefused: without the class's leave, data that cannot be shared is not copied.
func TestSnapshotRefused(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		if got := c.run(t, c.take(t), 0); got.Code == 0 {
			t.Skip("this file system shares data")
		}
		pod := c.take(t)
		c.run(t, pod, 0).Expect(t, 64, "cannot share data between files")
		if got := pod.Message(t); !strings.Contains(got, `cannot share data between files`) || !strings.Contains(got, `"snapshot-copy" with "full"`) {
			t.Errorf("message %q", got)
		}
		c.wantSnapshots(t, "")
	})
}

func TestSnapshotOfWhatIsNotThere(t *testing.T) {
	eachFull(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		unknown := map[string]int{"hostpath": 69, "nfs-subdir": 64}[c.image]
		c.run(t, c.take(t), 0).Expect(t, 1, c.missing)
		c.run(t, c.drop(t), 0).Expect(t, 75, "/.flex-provisioner is not ")
		c.run(t, c.restore(t), 0).Expect(t, unknown, "snapshot "+cmp.Or(map[string]string{"hostpath": sdktest.SnapshotName + " is not on node node-1"}[c.image], sdktest.SnapshotName))
		c.restored().checkGone(t)
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		c.run(t, c.drop(t), 0).Expect(t, 0, "")
		if err := os.RemoveAll(c.dir()); err != nil {
			t.Fatal(err)
		}
		c.run(t, c.take(t), 0).Expect(t, 1, "open "+c.dir()+": no such file or directory")
		c.wantSnapshots(t, "")
	})
}

// TestSnapshotByHand: an administrator's snapshot is restored and removed by its name.
func TestSnapshotByHand(t *testing.T) {
	each(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		byHand := c.snapshots() + "/golden.2026"
		if err := os.MkdirAll(byHand, 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, byHand, "golden")
		restore := sdktest.Restore(c.properties)
		restore.Source.VolumeName, restore.Source.Snapshot = "", "golden.2026"
		c.run(t, sdktest.NewPod(t, restore, sdktest.Skeleton(restore), c.api), 0).Expect(t, 0, "created")
		if got := content(t, c.restored().dir()); got != "golden" {
			t.Errorf("restored is %q", got)
		}
		drop := sdktest.DeleteSnapshot(c.properties)
		drop.VolumeName, drop.Snapshot.Name = "", "golden.2026"
		c.run(t, sdktest.NewPod(t, drop, nil, nil), 0).Expect(t, 0, "")
		c.wantSnapshots(t, "")
		again := c.run(t, sdktest.NewPod(t, drop, nil, nil), 0)
		if c.image == "hostpath" {
			again.Expect(t, 69, "snapshot golden.2026 is not on node node-1, and no record says on which node it is")
		} else {
			again.Expect(t, 0, "")
		}
	})
}

func TestSnapshotNames(t *testing.T) {
	eachFull(t, func(t *testing.T, newClass func() class) {
		c := newClass()
		c.run(t, c.provision(t), 0).Expect(t, 0, "created")
		for _, name := range []string{"..", ".", "../" + c.name, "-rf", "a b", "a\n", "*", ".x.copy-1"} {
			drop, restore := sdktest.DeleteSnapshot(c.properties), sdktest.Restore(c.properties)
			drop.Snapshot.Name, restore.Source.Snapshot = name, name
			for _, request := range []contract.Request{drop, restore} {
				c.run(t, sdktest.NewPod(t, request, sdktest.Skeleton(request), nil), 0).Expect(t, 64, "is no name of a snapshot")
			}
		}
		c.check(t, 0o777)
	})
}

// TestRestoreBesideKept: a directory that is kept from an earlier claim is no restored one.
func TestRestoreBesideKept(t *testing.T) {
	c := newHostpath(t, map[string]string{"path-pattern": byName, "keep-on-delete": "true", "snapshot-copy": "full"})
	c.run(t, c.provision(t), 0).Expect(t, 0, "created")
	put(t, c.dir(), "before")
	c.run(t, c.take(t), 0).Expect(t, 0, "")
	r := c.restored()
	c.run(t, c.restore(t), 0).Expect(t, 0, "created")
	put(t, r.dir(), "of an earlier claim")
	c.run(t, r.delete(t), 0).Expect(t, 0, "")
	c.run(t, c.restore(t), 0).Expect(t, 1, r.dir()+" on node node-1 is kept from an earlier claim, and nothing is restored into it; move it out of the way")
	if got := content(t, r.dir()); got != "of an earlier claim" {
		t.Errorf("there is %q", got)
	}
}

func TestSnapshotOnAnotherNode(t *testing.T) {
	c := newHostpath(t, map[string]string{"snapshot-copy": "full"})
	c.run(t, c.provision(t), 0).Expect(t, 0, "created")
	c.node = "node-2"
	c.run(t, c.take(t), 0).Expect(t, 69, fmt.Sprintf("%s is on node node-2, and this is node %s", c.dir(), sdktest.Node))
	c.run(t, c.drop(t), 0).Expect(t, 69, fmt.Sprintf("snapshot %s is on node node-2, and this is node %s", sdktest.SnapshotName, sdktest.Node))
	if got := sdk.Request(sdktest.Snapshot(nil)).KeyUID(); "snap-"+got != sdktest.SnapshotName {
		t.Errorf("UID %s", got)
	}
}

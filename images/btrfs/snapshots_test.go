//go:build conformance

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// snapshots asks for an operation on the snapshot n+100 of the n-th volume.
func (d testDisk) snapshot(t *testing.T, op contract.Operation, n int, node string) string {
	t.Helper()
	request := d.request(op, n, mebi)
	request.Snapshot = &contract.SnapshotRequest{Name: "snap-" + uid(n+100), UID: uid(n + 100)}
	volume := sdktest.Skeleton(request)
	volume.Spec.NodeAffinity = sdk.NodeAffinity(corev1.LabelHostname, node)
	return d.ask(t, request, volume)
}

func (d testDisk) take(t *testing.T, n int) string {
	t.Helper()
	return d.snapshot(t, contract.Snapshot, n, sdktest.Node)
}

func (d testDisk) drop(t *testing.T, n int) string {
	t.Helper()
	return d.snapshot(t, contract.DeleteSnapshot, n, sdktest.Node)
}

// restore provisions the volume to from the snapshot of the volume of.
func (d testDisk) restore(t *testing.T, of, to int, size int64) string {
	t.Helper()
	request := d.request(contract.Provision, to, size)
	request.Source = &contract.Source{VolumeName: "pvc-" + uid(of), Snapshot: "snap-" + uid(of+100)}
	return d.ask(t, request, sdktest.Skeleton(request))
}

func (d testDisk) snapshotDir(n int) string { return filepath.Join(d.root, "snap-"+uid(n+100)) }

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantText(t *testing.T, file, text string) {
	t.Helper()
	if data, err := os.ReadFile(file); string(data) != text {
		t.Errorf("%s has %q, %v, want %q", file, data, err, text)
	}
}

func TestSnapshot(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, 40*mebi), "")
	put(t, d.dir(1)+"/file", "before")
	want(t, "snapshot", d.take(t, 1), "")
	put(t, d.dir(1)+"/file", "after")
	want(t, "snapshot again", d.take(t, 1), "")
	if err := os.WriteFile(d.snapshotDir(1)+"/more", nil, 0o600); err == nil {
		t.Error("the snapshot can be written to")
	}
	for range 2 {
		want(t, "restore", d.restore(t, 1, 2, 40*mebi), "")
	}
	wantText(t, d.dir(2)+"/file", "before")
	wantText(t, d.dir(1)+"/file", "after")
	if got := write(t, d.dir(2)+"/data", 60*mebi); got > 40*mebi || got < 38*mebi {
		t.Errorf("a restored volume of 40Mi took %d bytes", got)
	}
	want(t, "delete of the source", d.delete(t, 1), "")
	want(t, "another volume, which removes empty groups", d.provision(t, 4, mebi), "")
	want(t, "restore without the source", d.restore(t, 1, 3, 40*mebi), "")
	wantText(t, d.dir(3)+"/file", "before")
	storage, err := provisioner{node: sdktest.Node}.List(t.Context(), sdktest.List(map[string]string{"root": d.root}))
	if err != nil || len(storage) != 3 || storage[0].Name != "pvc-"+uid(2) {
		t.Errorf("storage %v, error %v", storage, err)
	}
	for range 2 {
		want(t, "delete-snapshot", d.drop(t, 1), "")
	}
	if _, err := os.Lstat(d.snapshotDir(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the snapshot is there after its delete: %v", err)
	}
	wantText(t, d.dir(2)+"/file", "before")
	want(t, "restore of what is gone", d.restore(t, 1, 5, mebi), "69 node node-1 has no snapshot snap-"+uid(101))
	if _, err := os.Lstat(d.dir(5)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty volume is there: %v", err)
	}
}

// What a snapshot keeps stays charged to its volume, so that all volumes can be filled.
func TestSnapshotCounts(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "provision", d.provision(t, 1, 40*mebi), "")
	write(t, d.dir(1)+"/data", 30*mebi)
	want(t, "snapshot", d.take(t, 1), "")
	if err := os.Remove(d.dir(1) + "/data"); err != nil {
		t.Fatal(err)
	}
	if got := write(t, d.dir(1)+"/data", 30*mebi); got > 10*mebi {
		t.Errorf("a volume of 40Mi with a snapshot of 30Mi took %d bytes more", got)
	}
	want(t, "expand", d.expand(t, 1, 40*mebi, 80*mebi), "")
	if got := write(t, d.dir(1)+"/data", 30*mebi); got != 30*mebi {
		t.Errorf("after an expansion it took %d bytes", got)
	}
	want(t, "delete-snapshot", d.drop(t, 1), "")
	want(t, "delete", d.delete(t, 1), "")
}

func TestSnapshotRefused(t *testing.T) {
	d := newDisk(t, "btrfs", newServer(t))
	want(t, "snapshot without a disk of ours", d.take(t, 1), "75 ROOT on node node-1 has no quotas, so no volume was made there; is its disk mounted?")
	want(t, "provision", d.provision(t, 1, mebi), "")
	want(t, "snapshot of nothing", d.take(t, 2), "1 ROOT on node node-1 has no volume pvc-"+uid(2)+"; is its disk mounted?")
	want(t, "snapshot elsewhere", d.snapshot(t, contract.Snapshot, 1, "node-2"), "69 volume pvc-"+uid(1)+" is on node node-2, and this is node node-1")
	want(t, "delete elsewhere", d.snapshot(t, contract.DeleteSnapshot, 1, "node-2"), "69 volume pvc-"+uid(1)+" is on node node-2, and this is node node-1")

	run(t, "btrfs", "subvolume", "snapshot", d.dir(1), d.snapshotDir(1))
	notOurs := "1 ROOT/snap-" + uid(101) + " is not ours; move it out of the way"
	want(t, "snapshot of a name that is taken", d.take(t, 1), notOurs)
	want(t, "delete of what is not ours", d.drop(t, 1), notOurs)
	want(t, "restore of what is not ours", d.restore(t, 1, 3, mebi), notOurs)
	run(t, "btrfs", "subvolume", "delete", d.snapshotDir(1))

	want(t, "snapshot", d.take(t, 1), "")
	run(t, "btrfs", "property", "set", "-f", d.snapshotDir(1), "ro", "false")
	writable := "1 snapshot ROOT/snap-" + uid(101) + " can be written to, so it may be none: btrfs property set ROOT/snap-" + uid(101) + " ro true, or remove it"
	want(t, "snapshot that can be written to", d.take(t, 1), writable)
	want(t, "restore of it", d.restore(t, 1, 3, mebi), writable)
	want(t, "delete of it", d.drop(t, 1), "")

	for _, name := range []string{"pvc-" + uid(1), "../pvc-" + uid(1), "snap-x", ""} {
		request := d.request(contract.DeleteSnapshot, 1, mebi)
		request.Snapshot = &contract.SnapshotRequest{Name: name}
		if got := d.ask(t, request, nil); !strings.HasPrefix(got, "64 ") && name != "" {
			t.Errorf("delete of %q: %s", name, got)
		}
	}
	if _, err := os.Stat(d.dir(1)); err != nil {
		t.Error(err)
	}
	byHand := d.request(contract.DeleteSnapshot, 1, mebi)
	byHand.VolumeName, byHand.Snapshot = "", &contract.SnapshotRequest{Name: "snap-" + uid(101)}
	want(t, "delete without a record of what is not here", d.ask(t, byHand, nil), "69 node node-1 has no snapshot snap-"+uid(101)+", and no record says on which node it is")
	want(t, "snapshot", d.take(t, 1), "")
	want(t, "delete without a record", d.ask(t, byHand, nil), "")
}

package conformance

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const (
	remedyRestore = "with $FLEX_SOURCE_SNAPSHOT make the volume from that snapshot, or fail: never an empty one"
	remedyTake    = "make it under another name and rename it when it is whole; one that has $FLEX_SNAPSHOT_NAME is left as it is"
	remedyDrop    = "what is not there is gone: exit 0; give the snapshot another name before you remove anything of it"
)

func withoutSnapshots(s *stage) string {
	if !s.subject.config.Snapshots {
		return "its class does not say that it takes snapshots (snapshots, or inline scripts; --snapshots here)"
	}
	return ""
}

// snapshotOf is the claim with a new snapshot of its volume.
func (c *claim) snapshotOf() *claim {
	uid := string(uuid.NewUUID())
	s := *c
	s.Snapshot = &contract.SnapshotRequest{Name: podspec.SnapshotName(uid), Namespace: c.Claim.Namespace, VolumeSnapshot: "monday", UID: uid}
	return &s
}

// restoreOf is a new claim for the data of a snapshot.
func (t *trial) restoreOf(snapshot *claim) *claim {
	c := t.newClaim()
	c.Source = &contract.Source{Namespace: c.Claim.Namespace, Name: "monday", VolumeName: snapshot.VolumeName, Snapshot: snapshot.Snapshot.Name}
	return c
}

// contents are the files that the kit puts into a volume.
const contents = 50

// put writes the text into each of the files of a claim's volume, as an application does. It does nothing if the kit cannot see the volume.
func (t *trial) put(c *claim, text string) {
	dir, found := t.dataOf(t.api.Volume(c.VolumeName))
	if !found {
		return
	}
	owner := anyUser
	if own := t.subject.config.RunAsUser; own != nil {
		owner = int(*own)
	}
	if t.level.root {
		owner = 0
	}
	id := sandbox.HostID(owner, t.options.HostUsers)
	for n := range contents {
		file := filepath.Join(dir, fmt.Sprint("file-", n))
		t.must(os.WriteFile(file, []byte(text), 0o644))
		t.must(os.Lchown(file, id, id))
	}
}

// differs is how the files of a claim's volume differ from those that put wrote, empty if they do not, or if the kit cannot see them.
func (t *trial) differs(c *claim, text string) string {
	dir, found := t.dataOf(t.api.Volume(c.VolumeName))
	if !found {
		return ""
	}
	for n := range contents {
		name := fmt.Sprint("file-", n)
		data, err := os.ReadFile(filepath.Join(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist):
			return name + " is missing"
		case err != nil:
			return err.Error()
		case string(data) != text:
			return fmt.Sprintf("%s has %.40q and not %q", name, data, text)
		}
	}
	return ""
}

// dataOf is the directory of a volume's data in the storage that the kit made.
func (t *trial) dataOf(volume *corev1.PersistentVolume) (dir string, found bool) {
	path := ""
	switch {
	case volume == nil:
	case volume.Spec.NFS != nil:
		path = volume.Spec.NFS.Path
	case volume.Spec.Local != nil:
		path = volume.Spec.Local.Path
	case volume.Spec.HostPath != nil:
		path = volume.Spec.HostPath.Path
	}
	if path == "" {
		return "", false
	}
	for _, storage := range t.storage {
		dir := filepath.Join(storage, filepath.Base(path))
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return dir, true
		}
	}
	return "", false
}

func (t *trial) wantSnapshot(s *claim, when string) bool {
	return t.wantDone(t.pod(contract.Snapshot, s, t.api.Volume(s.VolumeName)), when, readLog)
}

// wantRestored restores a snapshot to a new claim, and removes that again. The volume has to have the text.
func (t *trial) wantRestored(s *claim, text, when string) {
	c := t.restoreOf(s)
	before := t.everything()
	if t.wantVolume(c, t.provision(c), when, remedyRestore) {
		if differs := t.differs(c, text); differs != "" {
			t.fail(nil, when+": the volume has what its source had when the snapshot was taken", differs, remedyRestore+"; "+remedyTake)
		}
	}
	t.wantRemovedTo(before, c, when)
}

// wantRemovedTo removes a claim. The storage has to be as it was before.
func (t *trial) wantRemovedTo(before []string, c *claim, when string) {
	r := t.removed(c)
	when += ", and its volume was deleted"
	if t.wantDone(r, when, "see check delete") {
		t.wantSame(r, before, when+": all else is as before", "see check delete")
	}
}

func (t *trial) wantDropped(s *claim, volume *corev1.PersistentVolume, when string) {
	t.wantDone(t.pod(contract.DeleteSnapshot, s, volume), when, remedyDrop)
}

// checkSnapshot also deletes the volume before its snapshot. A backend that cannot do that says so by exit code 75, and harms nothing.
func (t *trial) checkSnapshot() {
	c := t.provisioned()
	s, volume := c.snapshotOf(), t.api.Volume(c.VolumeName)
	t.put(c, "before")
	if t.wantSnapshot(s, "a first attempt") {
		t.put(c, "after")
		t.wantSnapshot(s, "a second attempt, as after one whose end was lost")
		t.wantRestored(s, "before", "a restore after the volume changed")
		if differs := t.differs(c, "after"); differs != "" {
			t.fail(nil, "the volume itself is as it was", differs, remedyRestore)
		}
		r := t.removed(c)
		if !r.ok() && r.Code != contract.ExitTryAgain {
			t.fail(r, "delete of a volume that has a snapshot exits with code 0, or with 75 if the backend cannot do that", r.summary(), "let snapshots do without their volume")
		}
		t.wantRestored(s, "before", "a restore after a delete of the volume")
	}
	t.wantDropped(s, volume, "at the end")
	t.wantGone(c, "a delete after the snapshot was removed", "see check delete")
	t.wantNothing(nil, "after its volume and its snapshot were deleted", remedyDrop)
}

func (t *trial) checkDeleteSnapshot() {
	c := t.provisioned()
	volume := t.api.Volume(c.VolumeName)
	t.put(c, "before")
	before := t.everything()
	t.wantDropped(c.snapshotOf(), volume, "a snapshot that was never taken")
	s := c.snapshotOf()
	t.wantSnapshot(s, "a first attempt")
	for _, when := range []string{"the first attempt", "the second attempt"} {
		t.wantDropped(s, volume, when)
	}
	t.wantSame(nil, before, "the snapshot is gone, and the volume is as before", remedyDrop)
	if differs := t.differs(c, "before"); differs != "" {
		t.fail(nil, "the volume itself is as it was", differs, "remove the snapshot and nothing else")
	}
	t.wantGone(c, "a delete of the volume", "see check delete")
}

// checkRestoreNothing restores a snapshot that was never taken, of a volume that exists and of one that nobody knows.
func (t *trial) checkRestoreNothing() {
	source := t.provisioned()
	before := t.everything()
	for _, of := range []string{source.VolumeName, ""} {
		c := t.restoreOf(source.snapshotOf())
		c.Source.VolumeName = of
		r := t.provision(c)
		if promised := r.Reason == podspec.ReasonRefused || r.Reason == podspec.ReasonNotHere; !promised {
			t.fail(r, "a restore of a snapshot that does not exist exits with code 64, or 69 on a node that has it not", r.summary(), remedyRestore)
		}
		t.wantRemovedTo(before, c, "a restore of nothing")
	}
	t.wantGone(source, "a delete", "see check delete")
}

// snapshotKilled disrupts an operation on snapshots by each of its disruptions, and repeats it.
func (t *trial) snapshotKilled(op contract.Operation) {
	c := t.provisioned()
	volume := t.api.Volume(c.VolumeName)
	t.put(c, "before")
	first := c.snapshotOf()
	r := t.pod(contract.Snapshot, first, volume)
	if dropped := t.pod(contract.DeleteSnapshot, first, volume); op == contract.DeleteSnapshot {
		r = dropped
	}
	t.eachDisruption(r, 0, func(b disruption) {
		s := c.snapshotOf()
		if op == contract.Snapshot {
			t.disrupt(op, s, volume, b)
			if t.wantSnapshot(s, "a snapshot after "+b.String()) {
				t.wantRestored(s, "before", "a restore after "+b.String())
			}
		} else if t.wantSnapshot(s, "a first attempt") {
			t.disrupt(op, s, volume, b)
			t.wantNoPart(s, "before", "a restore after "+b.String()+" of a delete-snapshot")
		}
		t.wantDropped(s, volume, "after "+b.String())
	})
	t.wantGone(c, "a delete after all snapshots were removed", remedyDrop)
}

// wantNoPart restores a snapshot that may be removed by half: there is no volume, or one with all of its data.
func (t *trial) wantNoPart(s *claim, text, when string) {
	c := t.restoreOf(s)
	before := t.everything()
	if r := t.provision(c); r.ok() {
		if differs := t.differs(c, text); differs != "" {
			t.fail(r, when+": no volume, or one with all the data", differs, remedyDrop)
		}
	}
	t.wantRemovedTo(before, c, when)
}

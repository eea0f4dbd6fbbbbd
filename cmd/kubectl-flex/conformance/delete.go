package conformance

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func (t *trial) checkDelete() {
	other := t.provisioned()
	others := t.everything()
	c := t.provisioned()
	r := t.removed(c)
	if !r.ok() {
		t.fail(r, "delete exits with code 0", r.summary(), "read the message and the log")
		return
	}
	now := t.everything()
	for _, name := range others {
		if !slices.Contains(now, name) {
			t.fail(r, "the other volume is untouched", name+" is gone", "remove what has the name of the volume or its mark, and nothing else")
			break
		}
	}
	if left := slices.DeleteFunc(now, func(name string) bool { return slices.Contains(others, name) }); len(left) > 0 {
		t.fail(r, "its storage is gone", "there is still "+some(left), "remove all that provision made")
	}
	t.blind = !t.sees()
	t.removed(other)
}

func (t *trial) checkDeleteTwice() {
	c := t.provisioned()
	volume := t.api.Volume(c.VolumeName)
	t.wantRemoved(t.pod(contract.Delete, c, volume), "the first delete", "see check delete")
	t.wantRemoved(t.pod(contract.Delete, c, volume), "the second delete", "what is not there is gone: exit 0, as rm -f does")
	t.api.RemoveVolume(c.VolumeName)
}

func (t *trial) checkDeleteAtOnce() {
	const remedy = "what another pod removed meanwhile is gone, and that is success"
	c := t.provisioned()
	for _, r := range t.both(contract.Delete, c, t.api.Volume(c.VolumeName)) {
		if r.Reason == podspec.ReasonRefused {
			t.fail(r, "two at once: each exits with code 0, or one that is tried again soon", r.summary(), remedy)
		}
	}
	t.wantGone(c, "a delete after two at once", remedy)
}

func (t *trial) checkDeleteNothing() {
	c := t.provisioned()
	never := t.newClaim()
	volume := t.renamed(t.api.Volume(c.VolumeName), c, never)
	t.wantGone(c, "a delete", "see check delete")
	t.wantRemoved(t.pod(contract.Delete, never, volume), "a delete of what was never made", "what is not there is gone: exit 0")
}

// renamed is the volume as another claim would have it.
func (t *trial) renamed(volume *corev1.PersistentVolume, from, to *claim) *corev1.PersistentVolume {
	data, err := json.Marshal(volume)
	t.must(err)
	other := &corev1.PersistentVolume{}
	t.must(json.Unmarshal(bytes.ReplaceAll(data, []byte(from.Claim.UID), []byte(to.Claim.UID)), other))
	return other
}

func (t *trial) checkUndo() {
	c := t.provisioned()
	t.api.RemoveVolume(c.VolumeName)
	t.wantGone(c, "a delete without a volume", "an undo has no "+contract.VolumeFile+": find the storage by $FLEX_PV_NAME and the properties")
}

func (t *trial) checkUndoNothing() {
	t.wantGone(t.newClaim(), "a delete of what was never made, without a volume", "what is not there is gone: exit 0")
}

func (t *trial) checkUnreachable() {
	c := t.provisioned()
	back := t.replaceStorage()
	r := t.pod(contract.Delete, c, t.api.Volume(c.VolumeName))
	back()
	if r.ok() {
		t.fail(r, "delete does not exit with code 0 while its storage is out of reach", r.summary(),
			"look for something that is there as long as the storage is mounted, and exit with 75 without it")
	}
	t.wantGone(c, "once the storage is back", "see check delete")
}

func (t *trial) checkElsewhere() {
	c := t.provisioned()
	back := t.replaceStorage()
	other := t.newClaim()
	if !t.wantProvisioned(other, first, readLog) {
		back()
		return
	}
	r := t.pod(contract.Delete, c, t.api.Volume(c.VolumeName))
	t.removed(other)
	back()
	if r.ok() {
		t.fail(r, "delete does not exit with code 0 in other storage, in which another volume was made", r.summary(),
			"tell one storage from another by the ID in its mark: flexctl require --mark FILE, and flexctl create-pv, which keeps the ID")
	}
	t.wantGone(c, "in its own storage", "see check delete")
}

// replaceStorage puts empty directories in the place of the storage. back takes them away again.
func (t *trial) replaceStorage() (back func()) {
	for path, dir := range t.storage {
		t.must(os.Rename(dir, dir+"-away"))
		t.must(t.newStorage(path))
	}
	return func() {
		for _, dir := range t.storage {
			t.must(os.RemoveAll(dir))
			t.must(os.Rename(dir+"-away", dir))
		}
	}
}

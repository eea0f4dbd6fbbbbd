package inspect

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Release is what it takes to remove the storage of a volume that its reclaim policy or the dispatcher keeps.
type Release struct {
	Volume *corev1.PersistentVolume
	// Why lists what the administrator should know before.
	Why []string
	// Patch is the merge patch after which the dispatcher removes the storage.
	Patch map[string]any
}

// ReleaseOf prepares the release of a volume's storage. The error says why this command cannot do it.
func (o *Objects) ReleaseOf(name string) (*Release, error) {
	v := o.VolumeNamed(name)
	if v == nil {
		return nil, NotFoundError{Name: name, Unread: o.Unread}
	}
	uid, ok := podspec.ClaimUIDOf(v.Name)
	if !o.ownVolume(v) || !ok {
		return nil, o.notOurs(v)
	}
	if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		return nil, fmt.Errorf("volume %s is %s, not Released: delete its claim first", v.Name, v.Status.Phase)
	}
	by, recorded := v.Annotations[contract.ProvisionedBy]
	if state := o.StateOf(uid); state.Reason == events.ReasonStorageMoved || state.Reason == events.ReasonRecord && recorded {
		return nil, fmt.Errorf("%s: %s", state.Reason, state.Message)
	}
	size := observed.Capacity(v)
	r := &Release{Volume: v, Why: []string{fmt.Sprintf("volume %s, %s of class %s", v.Name, size.String(), quoted(podspec.ClassOf(v)))}}
	if ref := v.Spec.ClaimRef; ref != nil {
		r.Why = append(r.Why, fmt.Sprintf("it was of claim %s/%s", podspec.OneLine(ref.Namespace), podspec.OneLine(ref.Name)))
		switch claim := o.ClaimNamed(ref.Namespace, ref.Name); {
		case claim != nil:
			r.Why = append(r.Why, "a claim of that name exists, and may be there to get the volume back")
		case !o.reads(Claims):
			r.Why = append(r.Why, "whether a claim of that name exists, to get the volume back, is not known: claims may not be read")
		}
	}
	if observed.GivenTo(v) != nil {
		r.Why = append(r.Why, "it was made for another claim, with UID "+uid+", and was given to that one")
	}
	if podspec.Restored(v) {
		r.Why = append(r.Why, "it was restored from a backup, and its storage may serve another volume")
	}
	if podspec.OriginUnknown(v) {
		r.Why = append(r.Why, "whether it was restored from a backup is not known, since its record is not valid")
	}
	if observed.BeforePlaces(v) {
		r.Why = append(r.Why, "its record does not say where its storage is: a pod removes what it finds in what the class mounts now")
	}
	annotations := map[string]any{contract.AnnAllowDelete: "true"}
	if by == "" {
		r.Why = append(r.Why, "its annotation "+contract.ProvisionedBy+" is lost, and is written again")
		if v.Annotations[contract.AnnIdentity] == "" {
			r.Why = append(r.Why, "its record is lost: its storage is looked for by the properties and parameters that the class has now")
		}
		annotations[contract.ProvisionedBy] = o.Dispatcher.Provisioner
	}
	metadata := map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion, "annotations": annotations}
	r.Patch = map[string]any{"metadata": metadata}
	if v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		r.Why = append(r.Why, fmt.Sprintf("its reclaim policy is %s, and becomes Delete", v.Spec.PersistentVolumeReclaimPolicy))
		r.Patch["spec"] = map[string]any{"persistentVolumeReclaimPolicy": corev1.PersistentVolumeReclaimDelete}
	}
	if !slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
		metadata["finalizers"] = append(slices.Clone(v.Finalizers), contract.VolumeFinalizer)
	}
	if o.Stop != nil {
		r.Why = append(r.Why, "deletions are stopped, so that its storage goes once they go on")
	}
	return r, nil
}

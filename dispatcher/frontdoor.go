package dispatcher

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/util"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// frontDoor is what the library calls. It takes claims and volumes in and returns at once: a thread of the library that
// waited for a pod would be lost to every other class. To the library each claim is "ignored" after that, which writes no
// event, starts no retry of its own and needs no permission to create volumes.
type frontDoor struct{ d *Dispatcher }

var (
	_ controller.Provisioner      = frontDoor{}
	_ controller.Qualifier        = frontDoor{}
	_ controller.BlockProvisioner = frontDoor{}
)

// ShouldProvision keeps claims away from Provision that were taken in before. The library would write an event for each
// call.
func (f frontDoor) ShouldProvision(_ context.Context, claim *corev1.PersistentVolumeClaim) bool {
	return !f.d.isWanted(string(claim.UID))
}

// SupportsBlock leaves the volume mode to the class's ConfigMap, whose refusal says more than the library's.
func (f frontDoor) SupportsBlock(context.Context) bool { return true }

// Provision takes a claim in. It never returns a volume: the library would create it, and an object that was read from
// the API fails there in a way that ends in the deletion of the storage.
func (f frontDoor) Provision(_ context.Context, o controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	f.d.want(string(o.PVC.UID), o.PVC.Namespace, util.GetPersistentVolumeClaimClass(o.PVC))
	return nil, controller.ProvisioningInBackground, &controller.IgnoredError{Reason: "the claim was taken in"}
}

// Delete takes a released volume in. The volume goes, after its storage, without the library.
func (f frontDoor) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	uid, ok := podspec.ClaimUIDOf(volume.Name)
	if !ok {
		f.d.recorder.Event(volume, corev1.EventTypeWarning, string(ReasonNotOurs),
			"the volume is not named pvc-<claim UID>, so no provisioner pod made it: remove its storage by hand, then the volume")
		return &controller.IgnoredError{Reason: "the volume has a foreign name"}
	}
	f.d.release(uid, claimNamespace(volume), util.GetPersistentVolumeClass(volume), volume.UID)
	return &controller.IgnoredError{Reason: "the volume was taken in"}
}

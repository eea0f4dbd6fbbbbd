package inspect

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// keyOf is the UID under which the dispatcher serves the claim with a UID: that in the name of the claim's volume,
// which may have been made for another claim.
func (o *Objects) keyOf(uid string) string {
	claim := o.claim(uid)
	if claim == nil || claim.Spec.VolumeName == "" {
		return uid
	}
	return observed.KeyOf(claim, o.VolumeNamed(claim.Spec.VolumeName), o.Dispatcher.Provisioner)
}

// holderOf is the UID of the claim that has the volume which was made for the claim with a UID. It is that claim's
// own where no other has it.
func (o *Objects) holderOf(uid string) string {
	v := o.VolumeNamed(podspec.VolumeName(uid))
	if v == nil {
		return uid
	}
	to := observed.GivenTo(v)
	if to == nil || o.claim(string(to.UID)) == nil || o.keyOf(string(to.UID)) != uid {
		return uid
	}
	return string(to.UID)
}

// lostVolume is why the claim does not have the volume that it is bound to, if it does not.
// Kubernetes marks a claim Lost some seconds after the volume is gone.
func (o *Objects) lostVolume(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) (c Cause, lost bool) {
	if claim == nil || claim.Spec.VolumeName == "" {
		return c, false
	}

	gone := o.reads(Volumes) && claim.Status.Phase == corev1.ClaimBound && o.VolumeNamed(claim.Spec.VolumeName) == nil
	switch {
	case volume == nil && (claim.Status.Phase == corev1.ClaimLost || gone):
		return explain(reasonLost, "PersistentVolume "+claim.Spec.VolumeName+" does not exist any more", true), true
	case volume == nil || volume.Name != claim.Spec.VolumeName:
		return c, false
	}
	if to := observed.GivenTo(volume); to != nil && to.UID != claim.UID {
		what := "volume " + volume.Name + " was made for this claim, and belongs to claim " + to.Namespace + "/" + to.Name + " now"
		return explain(reasonGiven, what, false), true
	}
	return c, false
}

// absentVolume is why a claim waits that asks for a volume by its name, where that volume does not exist. Who may not
// read volumes learns the name.
func (o *Objects) absentVolume(claim *corev1.PersistentVolumeClaim) (c Cause, absent bool) {
	asks := claim != nil && claim.Status.Phase == corev1.ClaimPending && claim.Spec.VolumeName != ""
	ours := asks && (!o.reads(Classes) || o.provisionerOf(claim) == o.Dispatcher.Provisioner)
	if !ours || o.VolumeNamed(claim.Spec.VolumeName) != nil {
		return c, false
	}

	what := "spec.volumeName is " + quoted(claim.Spec.VolumeName) + ": that PersistentVolume does not exist"
	if !o.reads(Volumes) {
		what += ", or does not fit the claim"
	}

	return explain(reasonNoVolume, what, true), true
}

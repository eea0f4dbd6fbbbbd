package observed

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// A volume is named after the claim that it was made for, and belongs to the claim in its claimRef. Both are the same
// until an administrator, a backup tool or an importer gives the volume to another claim.

// GivenTo names the claim that a volume was given to, nil where it was not given to another one than it was made for.
// The claim need not exist.
func GivenTo(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	ref := v.Spec.ClaimRef
	madeFor, ours := podspec.ClaimUIDOf(v.Name)
	if !ours || ref == nil {
		return nil
	}

	another := ref.UID != "" && string(ref.UID) != madeFor
	if !another || !namesClaim(ref) {
		return nil
	}

	named := metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}

	return &corev1.PersistentVolumeClaim{ObjectMeta: named}
}

// namesClaim reports whether a claim can have the namespace and name. Whoever may write volumes can write any text
// there.
func namesClaim(ref *corev1.ObjectReference) bool {
	return len(validation.IsDNS1123Label(ref.Namespace))+len(validation.IsDNS1123Subdomain(ref.Name)) == 0
}

// has reports whether claim and volume name each other. A user can name any volume in a claim, so the volume's
// claimRef is the proof.
func has(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	ref := v.Spec.ClaimRef

	return claim.Spec.VolumeName == v.Name && ref != nil && podspec.Names(ref, claim)
}

// KeyOf is the UID under which a claim is served: that in the name of its volume, which may have been made for
// another claim, or else its own. volume is the one that the claim names, or nil.
func KeyOf(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, provisioner string) string {
	if volume != nil && has(claim, volume) && madeHere(volume, provisioner) {
		if uid, ours := podspec.ClaimUIDOf(volume.Name); ours {
			return uid
		}
	}

	return string(claim.UID)
}

// madeHere reports whether no other provisioner says that it made the volume.
func madeHere(v *corev1.PersistentVolume, provisioner string) bool {
	by, found := v.Annotations[contract.ProvisionedBy]
	return !found || by == provisioner
}

// SetOther finds the claim that the volume was given to.
func (s *Claim) SetOther(claim func(namespace, name string) *corev1.PersistentVolumeClaim) {
	s.Other = nil
	if s.Volume == nil {
		return
	}

	if to := GivenTo(s.Volume); to != nil {
		s.Other = claim(to.Namespace, to.Name)
	}
}

// SetElsewhere finds out whether the claim is served under another UID than its own.
func (s *Claim) SetElsewhere(volume func(name string) *corev1.PersistentVolume) {
	s.Elsewhere = false
	if s.Claim == nil || s.Claim.Spec.VolumeName == "" {
		return
	}

	s.Elsewhere = KeyOf(s.Claim, volume(s.Claim.Spec.VolumeName), s.Provisioner) != s.UID
}

// ServedElsewhere reports whether the claim is the one with this UID, and is served under another UID.
func (s *Claim) ServedElsewhere(claim *corev1.PersistentVolumeClaim) bool {
	return claim == s.Claim && s.Elsewhere
}

// Given reports whether the volume was given to another claim than it was made for. That claim may not exist.
func (s *Claim) Given() bool { return s.Volume != nil && GivenTo(s.Volume) != nil }

// HandedOver reports whether another claim than the one that the volume was made for has the volume.
func (s *Claim) HandedOver() bool { return s.Given() && s.Other != nil && has(s.Other, s.Volume) }

// Holder is the claim that the volume belongs to: the size of the volume, its events and its claim's status are about
// it. Without a volume it is the claim that waits for one. It is nil where there is no such claim.
func (s *Claim) Holder() *corev1.PersistentVolumeClaim {
	switch {
	case s.HandedOver():
		return s.Other
	case s.Given():
		return nil
	}

	return s.Claim
}

// SetHolder replaces the holder by what a write left of it.
func (s *Claim) SetHolder(claim *corev1.PersistentVolumeClaim) {
	if s.HandedOver() {
		s.Other = claim
	} else {
		s.Claim = claim
	}
}

// bound reports whether a claim that lives is bound to the volume.
func (s *Claim) bound() bool {
	holder := s.Holder()
	if holder == nil || s.Volume == nil {
		return false
	}

	return holder.DeletionTimestamp == nil && podspec.Bound(holder, s.Volume)
}

// VolumeGoing reports whether somebody deleted the volume that a claim is bound to. Its finalizers keep it.
func (s *Claim) VolumeGoing() bool { return s.bound() && s.Volume.DeletionTimestamp != nil }

// AsksForMore reports whether the claim that is bound to the volume asks for more than the volume has.
func (s *Claim) AsksForMore() bool {
	if !s.bound() {
		return false
	}

	asked, made := Requested(s.Holder()), Capacity(s.Volume)

	return asked.Cmp(made) > 0
}

// AsksInVain reports whether a claim asks for more than a volume has that nobody can enlarge: the volume names the
// provisioner, and is not named as those that its pods make. An administrator made it.
func AsksInVain(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume, provisioner string) bool {
	_, ours := podspec.ClaimUIDOf(v.Name)
	if ours || v.Annotations[contract.ProvisionedBy] != provisioner || !podspec.Bound(claim, v) {
		return false
	}

	asked, made := Requested(claim), Capacity(v)

	return asked.Cmp(made) > 0
}

// RecordLost reports whether a volume of a class of this dispatcher has lost the annotation by which the dispatcher
// and Kubernetes know whose it is, and whether that matters: nobody would remove its storage, or enlarge it. Until
// its pods have been acted on, they say whose it is.
func (s *Claim) RecordLost() bool {
	v := s.Volume
	ours := s.Class != nil && s.Class.Provisioner == s.Provisioner
	if v == nil || !ours || len(s.Of(contract.Provision)) > 0 {
		return false
	}

	_, named := v.Annotations[contract.ProvisionedBy]
	if named {
		return false
	}

	if deletes(v) && v.DeletionTimestamp != nil {
		return true
	}

	switch v.Status.Phase {
	case corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed:
		return deletes(v) || s.AsksForMore()
	}

	return false
}

// ClassByObjects is the StorageClass that the objects are of, and otherwise where none of them names one.
//
// A provisioner writes its volume, and may write any class into it. So the class of a pod whose outcome has not been
// acted on comes first, which the dispatcher wrote. The volume's class counts once a claim is bound to it, whatever
// the claim's own is (an adopted volume may have another), and once its claim is gone.
func (s *Claim) ClassByObjects(otherwise string) string {
	switch {
	case s.Snapshot != nil && s.snapshotClass() != "":
		return s.snapshotClass()
	case s.Attachment != nil && s.Volume != nil:
		return podspec.ClassOf(s.Volume)
	}

	if newest, ok := Last(s.Of(contract.Provision)); ok && newest.Pod.Annotations[contract.AnnClass] != "" {
		return newest.Pod.Annotations[contract.AnnClass]
	}

	switch {
	case s.Volume != nil && (s.Claim == nil || s.bound()):
		return podspec.ClassOf(s.Volume)
	case s.Claim != nil:
		return podspec.ClassOfClaim(s.Claim)
	}

	all := s.All()
	slices.SortFunc(all, compare)
	for _, a := range slices.Backward(all) {
		if class := a.Pod.Annotations[contract.AnnClass]; class != "" {
			return class
		}
	}

	return otherwise
}

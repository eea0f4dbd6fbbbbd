package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Misfits says why a volume cannot serve the claim that it was made for, nil where it can. The volume binder skips such a volume without
// a word, and the library sees that the volume exists and stops: nobody else would tell the user.
func Misfits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if ref := v.Spec.ClaimRef; ref == nil {
		say("spec.claimRef is missing")
	} else if ref.UID != claim.UID || ref.Namespace != claim.Namespace || ref.Name != claim.Name {
		say("spec.claimRef is %s/%s with UID %q, not %s/%s with UID %q", ref.Namespace, ref.Name, ref.UID, claim.Namespace, claim.Name, claim.UID)
	}
	// The claim of a volume that an administrator gave to another class keeps its own, which cannot be changed.
	if class := ClassOfClaim(claim); ClassOf(v) != class && (v.Annotations[contract.AnnAdoptedFrom] == "" || !Bound(claim, v)) {
		say("spec.storageClassName is %q, not %q", ClassOf(v), class)
	}
	// A bound claim may ask for more since: that is an expansion.
	asked, made := claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	if made.Cmp(asked) < 0 && !Bound(claim, v) {
		say("spec.capacity.storage is %s, less than the %s that the claim asks for", made.String(), asked.String())
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			say("spec.accessModes lacks %s", mode)
		}
	}
	if asked, made := ModeOf(claim.Spec.VolumeMode), ModeOf(v.Spec.VolumeMode); asked != made {
		say("spec.volumeMode is %s, not %s", made, asked)
	}
	if len(faults) == 0 && v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound { // else the dispatcher deleted it
		say("somebody deleted it before it was bound")
	}
	return faults
}

// Bound reports whether Kubernetes has bound the two to each other.
func Bound(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == v.Name &&
		v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim.UID
}

// ModeOf is what a volume mode that is not given means.
func ModeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

// ClassOfClaim is the StorageClass of a claim, empty for none. The annotation is the one that Kubernetes' volume binder still prefers.
func ClassOfClaim(claim *corev1.PersistentVolumeClaim) string {
	if class, found := claim.Annotations[corev1.BetaStorageClassAnnotation]; found || claim.Spec.StorageClassName == nil {
		return class
	}
	return *claim.Spec.StorageClassName
}

// ClassOf is the StorageClass of a volume. The annotation is the one that Kubernetes' volume binder still prefers.
func ClassOf(v *corev1.PersistentVolume) string {
	if class, found := v.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}
	return v.Spec.StorageClassName
}

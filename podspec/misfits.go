package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Misfits says why a volume cannot serve the claim that it was made for, nil where it can. Nobody else tells the user:
// the volume binder skips such a volume silently, and the library stops since the volume exists.
func Misfits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []string {
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if ref := v.Spec.ClaimRef; ref == nil {
		fault("spec.claimRef is missing")
	} else if !Names(ref, claim) {
		fault("spec.claimRef is %s/%s with UID %q, not %s/%s with UID %q",
			ref.Namespace, ref.Name, ref.UID, claim.Namespace, claim.Name, claim.UID)
	}

	// The claim of an adopted volume keeps its class, since that field is immutable.
	class := ClassOfClaim(claim)
	adopted := v.Annotations[contract.AnnAdoptedFrom] != "" && Bound(claim, v)
	if ClassOf(v) != class && !adopted {
		fault("spec.storageClassName is %q, not %q", ClassOf(v), class)
	}

	// A bound claim that asks for more is to be expanded.
	if misfit := sizeMisfit(v, claim); misfit != "" && !Bound(claim, v) {
		fault("%s", misfit)
	}

	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			fault("spec.accessModes lacks %s", mode)
		}
	}

	if asked, made := ModeOf(claim.Spec.VolumeMode), ModeOf(v.Spec.VolumeMode); asked != made {
		fault("spec.volumeMode is %s, not %s", made, asked)
	}

	// A volume with other faults was deleted by the dispatcher.
	retracted := v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound
	if len(faults) == 0 && retracted {
		fault("somebody deleted it before it was bound")
	}

	return faults
}

// sizeMisfit says why a volume's capacity does not fit the claim, empty where it does.
func sizeMisfit(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) string {
	asked, made := claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	limit := largest(asked)
	switch {
	case made.Cmp(asked) < 0:
		return fmt.Sprintf("spec.capacity.storage is %s, less than the %s that the claim asks for",
			made.String(), asked.String())
	case made.Cmp(limit) > 0:
		return fmt.Sprintf("spec.capacity.storage is %s, more than %s, the most for the %s that the claim asks for",
			made.String(), limit.String(), asked.String())
	}

	return ""
}

const (
	// maxGrowth is how many times the size that is asked for a volume may have. A provisioner may hand out whole disks,
	// so that a volume may have maxSmall in any case.
	maxGrowth = 16
	maxSmall  = "64Ti"
)

// largest is the largest capacity that is believed of a volume for a claim. The claim's status shows it, and expansions
// go by it.
func largest(asked resource.Quantity) resource.Quantity {
	limit := asked.DeepCopy()
	limit.Mul(maxGrowth)
	if small := resource.MustParse(maxSmall); limit.Cmp(small) < 0 {
		return small
	}

	return limit
}

// Names reports whether a claimRef names the claim, as Kubernetes compares them.
func Names(ref *corev1.ObjectReference, claim *corev1.PersistentVolumeClaim) bool {
	return ref.UID == claim.UID && ref.Namespace == claim.Namespace && ref.Name == claim.Name
}

// Bound reports whether claim and volume are bound to each other.
func Bound(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	bound := claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName == v.Name
	named := v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == claim.UID

	return bound && named
}

// ModeOf is the volume mode, by default Filesystem.
func ModeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}

	return *mode
}

// ClassOfClaim is the StorageClass of a claim, empty for none. As in Kubernetes' volume binder, the beta annotation
// comes first, which may be any text: what is too long for a name is shortened.
func ClassOfClaim(claim *corev1.PersistentVolumeClaim) string {
	class, found := claim.Annotations[corev1.BetaStorageClassAnnotation]
	if found || claim.Spec.StorageClassName == nil {
		return Clip(class, contract.MaxClass)
	}

	return *claim.Spec.StorageClassName
}

// ClassOf is the StorageClass of a volume. As in Kubernetes' volume binder, the beta annotation comes first.
func ClassOf(v *corev1.PersistentVolume) string {
	if class, found := v.Annotations[corev1.BetaStorageClassAnnotation]; found {
		return class
	}

	return v.Spec.StorageClassName
}

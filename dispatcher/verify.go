package dispatcher

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/util"
)

// misfits says why a volume cannot serve the claim that it was made for. The volume binder skips such a volume without
// a word, and the library sees that the volume exists and stops: nobody else would tell the user.
func misfits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound {
		say("somebody deleted it before it was bound")
	}
	if ref := v.Spec.ClaimRef; ref == nil {
		say("spec.claimRef is missing")
	} else if ref.UID != claim.UID || ref.Namespace != claim.Namespace || ref.Name != claim.Name {
		say("spec.claimRef is %s/%s with UID %q, not %s/%s with UID %q", ref.Namespace, ref.Name, ref.UID, claim.Namespace, claim.Name, claim.UID)
	}
	if class := util.GetPersistentVolumeClaimClass(claim); util.GetPersistentVolumeClass(v) != class {
		say("spec.storageClassName is %q, not %q", util.GetPersistentVolumeClass(v), class)
	}
	// A bound claim may ask for more since: that is an expansion.
	if asked, made := requestOf(claim), capacityOf(v); made.Cmp(asked) < 0 && !bound(claim, v) {
		say("spec.capacity.storage is %s, less than the %s that the claim asks for", made.String(), asked.String())
	}
	for _, mode := range claim.Spec.AccessModes {
		if !slices.Contains(v.Spec.AccessModes, mode) {
			say("spec.accessModes lacks %s", mode)
		}
	}
	if asked, made := modeOf(claim.Spec.VolumeMode), modeOf(v.Spec.VolumeMode); asked != made {
		say("spec.volumeMode is %s, not %s", made, asked)
	}
	return faults
}

func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

func joined(faults []string) string { return strings.Join(faults, "; ") }

package podspec

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// RecordLost says that a volume of the provisioner's class does not say any more who made it, and what follows.
func RecordLost(v *corev1.PersistentVolume) string {
	return fmt.Sprintf("volume %s of class %.64q has no annotation %s, so that nobody expands it or removes its "+
		"storage", v.Name, ClassOf(v), contract.ProvisionedBy)
}

// MendRecord is the command for a volume that lost the annotation provisioned-by. Where the other annotations of its
// record are still there, their signature is valid again with it. Where they are gone too, the class's image looks
// for the storage of a volume in use.
func MendRecord(v *corev1.PersistentVolume, provisioner string) string {
	switch {
	case v.Annotations[contract.AnnIdentity] != "":
		return fmt.Sprintf("kubectl annotate pv %s %s=%s", v.Name, contract.ProvisionedBy, provisioner)
	case v.Status.Phase == corev1.VolumeBound:
		return fmt.Sprintf("kubectl flex adopt %s --class %s --yes", v.Name, ClassOf(v))
	}

	return "kubectl flex release " + v.Name
}

// ReleasedAt is when a volume reached its phase, or else when it was created.
func ReleasedAt(v *corev1.PersistentVolume) time.Time {
	if at := v.Status.LastPhaseTransitionTime; at != nil {
		return at.Time
	}

	return v.CreationTimestamp.Time
}

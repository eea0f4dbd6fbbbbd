package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Needed reports whether a claim is bound, and asks for more than its status says that it has, or its status speaks of
// an expansion in hand.
func Needed(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && (asked.Cmp(has) > 0 || Marked(claim))
}

// OnNode reports whether the kubelet has an expansion of the claim in hand.
func OnNode(claim *corev1.PersistentVolumeClaim) bool {
	status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]

	return status == corev1.PersistentVolumeClaimNodeResizePending ||
		status == corev1.PersistentVolumeClaimNodeResizeInProgress
}

// LastStep is who makes larger storage usable.
type LastStep string

const (
	// NoStep means that a larger device or directory is all there is to it.
	NoStep LastStep = "none"
	// Kubelet grows the file system, or says that nothing needs to be done.
	Kubelet LastStep = "kubelet"
	// Nobody does: a file system lies on a device, and the kubelet has no code that grows it for the volume's type.
	Nobody LastStep = "nobody"
)

// LastStepOf follows what the kubelet does for each volume type. docs/design-notes.md has the evidence.
func LastStepOf(v *corev1.PersistentVolume) LastStep {
	source := SourceOf(v)
	switch {
	case source == "csi":
		return Kubelet
	case podspec.ModeOf(v.Spec.VolumeMode) == corev1.PersistentVolumeBlock,
		slices.Contains([]string{"nfs", "hostPath"}, source):
		return NoStep
	case source == "local":
		return Kubelet
	}

	return Nobody
}

// SourceOf names the volume's type as its spec does.
func SourceOf(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return "csi"
	case s.NFS != nil:
		return "nfs"
	case s.HostPath != nil:
		return "hostPath"
	case s.Local != nil:
		return "local"
	case s.ISCSI != nil:
		return "iscsi"
	case s.FC != nil:
		return "fc"
	}

	return "of another type"
}

package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Repair is what a volume lacks that Kubernetes binds all the same, so that it has to be given to it rather than the
// volume be undone: without provisioned-by nobody would ever remove its storage, and without the finalizer the object
// could go before the storage.
type Repair struct {
	// Faults say what it lacks.
	Faults []string
	// Patch is the merge patch that gives it to it.
	Patch map[string]any
}

// RepairOf is nil where a new volume lacks nothing. reclaim is the class's policy, nil where that is not known; record are the
// annotations of the volume's record, nil where the volume has them.
func RepairOf(v *corev1.PersistentVolume, reclaim *corev1.PersistentVolumeReclaimPolicy, provisioner string, record map[string]string) *Repair {
	metadata, patch, annotations := map[string]any{"uid": v.UID}, map[string]any{}, map[string]any{}
	var faults []string
	if got := v.Annotations[contract.ProvisionedBy]; got != provisioner {
		faults = append(faults, fmt.Sprintf("annotation %s is %q", contract.ProvisionedBy, got))
		annotations[contract.ProvisionedBy] = provisioner
	}
	if record != nil {
		faults = append(faults, "annotation "+contract.AnnRecord+" is not the one of volume.yaml")
		for name, value := range record {
			annotations[name] = value
		}
	}
	// The library takes the finalizer off volumes that are retained.
	if v.DeletionTimestamp == nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		!slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
		faults = append(faults, "finalizer "+contract.VolumeFinalizer+" is missing")
		metadata["finalizers"] = append(slices.Clone(v.Finalizers), contract.VolumeFinalizer)
		metadata["resourceVersion"] = v.ResourceVersion // a merge patch replaces the list, so it has to be the one that was read
	}
	// Retain may be an administrator's doing, and is never taken back.
	if policy := v.Spec.PersistentVolumeReclaimPolicy; reclaim != nil && policy != *reclaim &&
		policy != corev1.PersistentVolumeReclaimRetain && v.Status.Phase != corev1.VolumeReleased {
		faults = append(faults, fmt.Sprintf("spec.persistentVolumeReclaimPolicy is %s, the class says %s", policy, *reclaim))
		patch["spec"] = map[string]any{"persistentVolumeReclaimPolicy": *reclaim}
	}
	if len(faults) == 0 {
		return nil
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	patch["metadata"] = metadata
	return &Repair{Faults: faults, Patch: patch}
}

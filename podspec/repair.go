package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Repair completes a volume that Kubernetes binds although it lacks something. It is patched and not undone, since it
// may be in use. Without provisioned-by nobody would remove its storage. Without the finalizer the object could be
// deleted before the storage.
type Repair struct {
	// Faults say what the provisioner should have made otherwise. There may be none.
	Faults []string
	// Kept says what is left as it is, since an administrator may have made it so; empty where nothing is.
	Kept string
	// Patch is the merge patch that completes the volume, nil where nothing is to be patched.
	Patch map[string]any
}

// RepairOf is nil where the volume lacks nothing. reclaim is the class's policy, nil where it is not known. record are
// the annotations of the volume's record, nil where the volume has them. location is what its pod reported, empty where
// the volume has that, or the pod reported none.
func RepairOf(
	v *corev1.PersistentVolume, reclaim *corev1.PersistentVolumeReclaimPolicy, provisioner string,
	record map[string]string, location string,
) *Repair {
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

	if location != "" {
		annotations[contract.AnnLocation] = location
		// Images of before the contract had the annotation write none.
		if got, found := v.Annotations[contract.AnnLocation]; found {
			faults = append(faults, fmt.Sprintf("annotation %s is %.64q, the pod reported %s",
				contract.AnnLocation, got, Clip(location, 64)))
		}
	}

	// It keeps the object of a retained volume too, as long as pods of its attempts exist.
	if v.DeletionTimestamp == nil && !slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
		faults = append(faults, "finalizer "+contract.VolumeFinalizer+" is missing")
		metadata["finalizers"] = append(slices.Clone(v.Finalizers), contract.VolumeFinalizer)
		// a merge patch replaces the whole list, so the list must not have changed
		metadata["resourceVersion"] = v.ResourceVersion
	}

	fault, kept := reclaimFault(v, reclaim)
	if fault != "" {
		faults = append(faults, fault)
		patch["spec"] = map[string]any{"persistentVolumeReclaimPolicy": *reclaim}
	}

	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}

	switch {
	case len(faults) > 0 || len(annotations) > 0:
		patch["metadata"] = metadata
		return &Repair{Faults: faults, Kept: kept, Patch: patch}
	case kept != "":
		return &Repair{Kept: kept}
	}

	return nil
}

// reclaimFault says how the volume's reclaim policy differs from the class's, which a repair changes, or which is kept:
// an administrator may have set Retain.
func reclaimFault(v *corev1.PersistentVolume, reclaim *corev1.PersistentVolumeReclaimPolicy) (fault, kept string) {
	policy := v.Spec.PersistentVolumeReclaimPolicy
	if reclaim == nil || policy == *reclaim || v.Status.Phase == corev1.VolumeReleased {
		return "", ""
	}

	differs := fmt.Sprintf("spec.persistentVolumeReclaimPolicy is %s, the class says %s", policy, *reclaim)
	if policy == corev1.PersistentVolumeReclaimRetain {
		return "", differs
	}

	return differs, ""
}

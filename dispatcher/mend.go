package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// mending is what a volume lacks that Kubernetes binds all the same, so that it has to be given to it rather than the
// volume be undone: without provisioned-by nobody would ever remove its storage, and without the finalizer the object
// could go before the storage.
type mending struct {
	faults []string
	patch  map[string]any
}

// mend is nil where a new volume lacks nothing.
func mend(v *corev1.PersistentVolume, terms *storagev1.StorageClass, provisioner string) *mending {
	metadata, patch := map[string]any{"uid": v.UID}, map[string]any{}
	var faults []string
	if got := v.Annotations[contract.ProvisionedBy]; got != provisioner {
		faults = append(faults, fmt.Sprintf("annotation %s is %q", contract.ProvisionedBy, got))
		metadata["annotations"] = map[string]any{contract.ProvisionedBy: provisioner}
	}
	// The library takes the finalizer off volumes that are retained.
	if v.DeletionTimestamp == nil && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete &&
		!slices.Contains(v.Finalizers, contract.VolumeFinalizer) {
		faults = append(faults, "finalizer "+contract.VolumeFinalizer+" is missing")
		metadata["finalizers"] = append(slices.Clone(v.Finalizers), contract.VolumeFinalizer)
		metadata["resourceVersion"] = v.ResourceVersion // a merge patch replaces the list, so it has to be the one that was read
	}
	// Retain may be an administrator's doing, and is never taken back.
	if policy := v.Spec.PersistentVolumeReclaimPolicy; terms != nil && terms.ReclaimPolicy != nil && policy != *terms.ReclaimPolicy &&
		policy != corev1.PersistentVolumeReclaimRetain && v.Status.Phase != corev1.VolumeReleased {
		faults = append(faults, fmt.Sprintf("spec.persistentVolumeReclaimPolicy is %s, the class says %s", policy, *terms.ReclaimPolicy))
		patch["spec"] = map[string]any{"persistentVolumeReclaimPolicy": *terms.ReclaimPolicy}
	}
	if len(faults) == 0 {
		return nil
	}
	patch["metadata"] = metadata
	return &mending{faults: faults, patch: patch}
}

func (d *Dispatcher) mend(ctx context.Context, v *corev1.PersistentVolume, m *mending) error {
	patch, err := json.Marshal(m.patch)
	if err != nil {
		return fmt.Errorf("encode patch of volume %s: %w", v.Name, err)
	}
	_, err = d.client.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mend volume %s: %w", v.Name, err)
	}
	return nil
}

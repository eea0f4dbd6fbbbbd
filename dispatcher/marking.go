package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// marking is what the status of a claim is to say about its size. The words are Kubernetes' own: quotas count the
// allocated size, the API server lets a user ask for less while a status is there, and the kubelet takes up what is
// pending on the node.
type marking struct {
	capacity  resource.Quantity // zero leaves it
	allocated resource.Quantity // zero leaves it
	status    corev1.ClaimResourceStatus
	// conditions replace those that tell of a resize.
	conditions []corev1.PersistentVolumeClaimCondition
}

// resizeConditions are those that speak of a resize; others belong to others.
var resizeConditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

func condition(kind corev1.PersistentVolumeClaimConditionType, message string) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{Type: kind, Status: corev1.ConditionTrue, Message: podspec.Clean(message)}
}

// inProgress marks a claim whose first attempt for a size is about to start, nil where it is marked so: a retry leaves the
// last error in sight.
func inProgress(claim *corev1.PersistentVolumeClaim, target resource.Quantity) *marking {
	allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
	if marked(claim) && allocated.Cmp(target) == 0 {
		return nil
	}
	return (&marking{allocated: target, status: corev1.PersistentVolumeClaimControllerResizeInProgress,
		conditions: []corev1.PersistentVolumeClaimCondition{condition(corev1.PersistentVolumeClaimResizing, "")}}).unless(claim)
}

// failing marks a claim whose attempt failed. refused is what Kubernetes calls infeasible.
func failing(claim *corev1.PersistentVolumeClaim, target resource.Quantity, refused bool, message string) *marking {
	m := &marking{allocated: target, status: corev1.PersistentVolumeClaimControllerResizeInProgress,
		conditions: []corev1.PersistentVolumeClaimCondition{condition(corev1.PersistentVolumeClaimResizing, ""), condition(corev1.PersistentVolumeClaimControllerResizeError, message)}}
	if refused {
		m.status = corev1.PersistentVolumeClaimControllerResizeInfeasible
	}
	return m.unless(claim)
}

// infeasible marks a claim that is refused before an attempt. Nothing is allocated for it.
func infeasible(claim *corev1.PersistentVolumeClaim, message string) *marking {
	return (&marking{status: corev1.PersistentVolumeClaimControllerResizeInfeasible,
		conditions: []corev1.PersistentVolumeClaimCondition{condition(corev1.PersistentVolumeClaimControllerResizeError, message)}}).unless(claim)
}

// nodePending marks a claim whose file system the kubelet has to grow. It does when a pod uses the claim.
func nodePending(claim *corev1.PersistentVolumeClaim, made resource.Quantity) *marking {
	return (&marking{allocated: made, status: corev1.PersistentVolumeClaimNodeResizePending,
		conditions: []corev1.PersistentVolumeClaimCondition{condition(corev1.PersistentVolumeClaimFileSystemResizePending,
			"Waiting for user to (re-)start a pod to finish file system resize of volume on node.")}}).unless(claim)
}

// finished marks a claim that has all that its volume has.
func finished(claim *corev1.PersistentVolumeClaim, made resource.Quantity) *marking {
	return (&marking{capacity: made, allocated: made}).unless(claim)
}

// marked says that the claim's status tells of an expansion that the kubelet has no part in.
func marked(claim *corev1.PersistentVolumeClaim) bool {
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible:
		return true
	}
	return false
}

// unless is nil where the claim's status says so already.
func (m *marking) unless(claim *corev1.PersistentVolumeClaim) *marking {
	old, status := m.apply(claim, metav1.Time{}), claim.Status
	if equality.Semantic.DeepEqual(old.Capacity, status.Capacity) && equality.Semantic.DeepEqual(old.AllocatedResources, status.AllocatedResources) &&
		equality.Semantic.DeepEqual(old.AllocatedResourceStatuses, status.AllocatedResourceStatuses) &&
		equality.Semantic.DeepEqual(old.Conditions, status.Conditions) {
		return nil
	}
	return m
}

// apply is the claim's status with the marking. A condition that was there keeps its time.
func (m *marking) apply(claim *corev1.PersistentVolumeClaim, now metav1.Time) corev1.PersistentVolumeClaimStatus {
	status := *claim.Status.DeepCopy()
	set := func(list *corev1.ResourceList, size resource.Quantity) {
		if size.IsZero() {
			return
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceStorage] = size
	}
	set(&status.Capacity, m.capacity)
	set(&status.AllocatedResources, m.allocated)
	statuses := map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	maps.Copy(statuses, status.AllocatedResourceStatuses)
	delete(statuses, corev1.ResourceStorage)
	if m.status != "" {
		statuses[corev1.ResourceStorage] = m.status
	}
	status.AllocatedResourceStatuses = statuses
	var conditions []corev1.PersistentVolumeClaimCondition
	for _, c := range status.Conditions {
		if !slices.Contains(resizeConditions, c.Type) {
			conditions = append(conditions, c)
		}
	}
	for _, c := range m.conditions {
		c.LastTransitionTime = now
		for _, before := range status.Conditions {
			if before.Type == c.Type && before.Status == c.Status {
				c.LastTransitionTime = before.LastTransitionTime
			}
		}
		conditions = append(conditions, c)
	}
	status.Conditions = conditions
	return status
}

// patch is a merge patch for the claim's status. It replaces the list of conditions, so it carries the resource version
// that was read.
func (m *marking) patch(claim *corev1.PersistentVolumeClaim, now metav1.Time) ([]byte, error) {
	status := m.apply(claim, now)
	var mark any // null takes it away
	if m.status != "" {
		mark = m.status
	}
	changes := map[string]any{"conditions": status.Conditions, "allocatedResourceStatuses": map[string]any{string(corev1.ResourceStorage): mark}}
	if !m.capacity.IsZero() {
		changes["capacity"] = status.Capacity
	}
	if !m.allocated.IsZero() {
		changes["allocatedResources"] = status.AllocatedResources
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion}, "status": changes})
	if err != nil {
		return nil, fmt.Errorf("encode patch of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return patch, nil
}

// mark writes how an expansion stands into the claim's status.
func (d *Dispatcher) mark(ctx context.Context, f *facts, m *marking) error {
	patch, err := m.patch(f.claim, metav1.NewTime(f.now))
	if err != nil {
		return err
	}
	claims := d.client.CoreV1().PersistentVolumeClaims(f.claim.Namespace)
	now, err := claims.Patch(ctx, f.claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("mark claim %s/%s: %w", f.claim.Namespace, f.claim.Name, err)
	}
	f.claim = now
	return nil
}

// grow writes the capacity that the storage has by now. The resource version keeps an old cache from taking it back.
func (d *Dispatcher) grow(ctx context.Context, v *corev1.PersistentVolume, size *resource.Quantity) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion},
		"spec":     map[string]any{"capacity": corev1.ResourceList{corev1.ResourceStorage: *size}}})
	if err != nil {
		return fmt.Errorf("encode patch of volume %s: %w", v.Name, err)
	}
	_, err = d.client.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the capacity of volume %s: %w", v.Name, err)
	}
	return nil
}

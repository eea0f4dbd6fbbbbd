package resize

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Status is what the claim's status has to say about its size. Others read it: quotas count the allocated size, the API
// server lets a user ask for less while a status exists, and the kubelet takes up what is pending on the node.
type Status struct {
	// capacity and allocated are the sizes to write. A zero leaves what is there.
	capacity, allocated resource.Quantity
	// status is empty where no expansion is under way.
	status corev1.ClaimResourceStatus
	// conditions replace those that speak of a resize.
	conditions conditions
}

type conditions = []corev1.PersistentVolumeClaimCondition

// resizeConditions are those that speak of a resize; others belong to others.
var resizeConditions = []corev1.PersistentVolumeClaimConditionType{
	corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
	corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError,
}

func condition(kind corev1.PersistentVolumeClaimConditionType, message string) corev1.PersistentVolumeClaimCondition {
	return corev1.PersistentVolumeClaimCondition{Type: kind, Status: corev1.ConditionTrue,
		Message: podspec.Clean(message)}
}

// InProgress marks a claim whose first attempt for a size is about to start. It is nil if the claim is marked for that
// size: a retry leaves the last error in sight.
func InProgress(claim *corev1.PersistentVolumeClaim, target resource.Quantity) *Status {
	allocated := claim.Status.AllocatedResources[corev1.ResourceStorage]
	if Marked(claim) && allocated.Cmp(target) == 0 {
		return nil
	}

	s := &Status{
		allocated:  target,
		status:     corev1.PersistentVolumeClaimControllerResizeInProgress,
		conditions: conditions{condition(corev1.PersistentVolumeClaimResizing, "")},
	}

	return s.unless(claim)
}

// Failing marks a claim whose attempt failed. refused is what Kubernetes calls infeasible.
func Failing(claim *corev1.PersistentVolumeClaim, target resource.Quantity, refused bool, message string) *Status {
	s := &Status{
		allocated: target,
		status:    corev1.PersistentVolumeClaimControllerResizeInProgress,
		conditions: conditions{
			condition(corev1.PersistentVolumeClaimResizing, ""),
			condition(corev1.PersistentVolumeClaimControllerResizeError, message),
		},
	}
	if refused {
		s.status = corev1.PersistentVolumeClaimControllerResizeInfeasible
	}

	return s.unless(claim)
}

// Infeasible marks a claim that is refused before an attempt. Nothing is allocated for it.
func Infeasible(claim *corev1.PersistentVolumeClaim, message string) *Status {
	s := &Status{
		status:     corev1.PersistentVolumeClaimControllerResizeInfeasible,
		conditions: conditions{condition(corev1.PersistentVolumeClaimControllerResizeError, message)},
	}

	return s.unless(claim)
}

// NodePending marks a claim whose file system the kubelet grows once a pod uses the claim.
func NodePending(claim *corev1.PersistentVolumeClaim, made resource.Quantity) *Status {
	const message = "Waiting for user to (re-)start a pod to finish file system resize of volume on node."
	s := &Status{
		allocated:  made,
		status:     corev1.PersistentVolumeClaimNodeResizePending,
		conditions: conditions{condition(corev1.PersistentVolumeClaimFileSystemResizePending, message)},
	}

	return s.unless(claim)
}

// Finished marks a claim that has all that its volume has.
func Finished(claim *corev1.PersistentVolumeClaim, made resource.Quantity) *Status {
	return (&Status{capacity: made, allocated: made}).unless(claim)
}

// Marked reports whether the claim's status speaks of an expansion that the dispatcher has in hand.
func Marked(claim *corev1.PersistentVolumeClaim) bool {
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible:
		return true
	}

	return false
}

// unless returns nil if the claim's status is so already.
func (s *Status) unless(claim *corev1.PersistentVolumeClaim) *Status {
	if same(s.apply(claim, metav1.Time{}), claim.Status) {
		return nil
	}

	return s
}

// same reports whether two statuses are equal in what apply changes.
func same(a, b corev1.PersistentVolumeClaimStatus) bool {
	equal := equality.Semantic.DeepEqual
	sizes := equal(a.Capacity, b.Capacity) && equal(a.AllocatedResources, b.AllocatedResources)
	progress := equal(a.AllocatedResourceStatuses, b.AllocatedResourceStatuses) && equal(a.Conditions, b.Conditions)

	return sizes && progress
}

// apply is the claim's status with this one. A condition that was there keeps its time.
func (s *Status) apply(claim *corev1.PersistentVolumeClaim, now metav1.Time) corev1.PersistentVolumeClaimStatus {
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
	set(&status.Capacity, s.capacity)
	set(&status.AllocatedResources, s.allocated)
	statuses := map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	maps.Copy(statuses, status.AllocatedResourceStatuses)
	delete(statuses, corev1.ResourceStorage)
	if s.status != "" {
		statuses[corev1.ResourceStorage] = s.status
	}

	status.AllocatedResourceStatuses = statuses
	var conditions []corev1.PersistentVolumeClaimCondition
	for _, c := range status.Conditions {
		if !slices.Contains(resizeConditions, c.Type) {
			conditions = append(conditions, c)
		}
	}

	for _, c := range s.conditions {
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

// Patch is a merge patch for the claim's status. It replaces the list of conditions, so it carries the resource version
// that was read.
func (s *Status) Patch(claim *corev1.PersistentVolumeClaim, now metav1.Time) map[string]any {
	status := s.apply(claim, now)
	var mark any // null takes it away
	if s.status != "" {
		mark = s.status
	}

	changes := map[string]any{
		"conditions":                status.Conditions,
		"allocatedResourceStatuses": map[string]any{string(corev1.ResourceStorage): mark},
	}
	if !s.capacity.IsZero() {
		changes["capacity"] = status.Capacity
	}

	if !s.allocated.IsZero() {
		changes["allocatedResources"] = status.AllocatedResources
	}

	return map[string]any{
		"metadata": map[string]any{"uid": claim.UID, "resourceVersion": claim.ResourceVersion},
		"status":   changes,
	}
}

// String names the sizes, the status and the conditions.
func (s *Status) String() string {
	var words []string
	if !s.capacity.IsZero() {
		words = append(words, "capacity "+s.capacity.String())
	}

	if !s.allocated.IsZero() {
		words = append(words, "allocated "+s.allocated.String())
	}

	words = append(words, cmp.Or(string(s.status), "settled"))
	for _, c := range s.conditions {
		words = append(words, string(c.Type))
	}

	return strings.Join(words, " ")
}

package resize

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

func boundClaim(asked string, status corev1.ClaimResourceStatus) *corev1.PersistentVolumeClaim {
	sizes := func(size string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: dispatchertest.UID, ResourceVersion: "7"},
		Spec:   corev1.PersistentVolumeClaimSpec{Resources: corev1.VolumeResourceRequirements{Requests: sizes(asked)}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: sizes("1Gi")}}
	if status != "" {
		claim.Status.AllocatedResources = sizes("2Gi")
		claim.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: status}
	}

	return claim
}

func TestPatch(t *testing.T) {
	claim := boundClaim("2Gi", corev1.PersistentVolumeClaimControllerResizeInProgress)
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: "Mine", Status: corev1.ConditionTrue},
		{Type: corev1.PersistentVolumeClaimResizing, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(dispatchertest.Noon.Add(-time.Hour))}}
	for _, c := range []struct {
		name   string
		status *Status
		want   string
	}{
		{"failing", Failing(claim, resource.MustParse("2Gi"), true, "no\nroom"),
			`{"metadata":{"resourceVersion":"7","uid":"` + dispatchertest.UID + `"},"status":{"allocatedResourceStatuses":{"storage":"ControllerResizeInfeasible"},"allocatedResources":{"storage":"2Gi"},` +
				`"conditions":[{"type":"Mine","status":"True","lastProbeTime":null,"lastTransitionTime":null},` +
				`{"type":"Resizing","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-21T11:00:00Z"},` +
				`{"type":"ControllerResizeError","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-11-21T12:00:00Z","message":"no room"}]}}`},
		{"finished", Finished(claim, resource.MustParse("2Gi")),
			`{"metadata":{"resourceVersion":"7","uid":"` + dispatchertest.UID + `"},"status":{"allocatedResourceStatuses":{"storage":null},"allocatedResources":{"storage":"2Gi"},` +
				`"capacity":{"storage":"2Gi"},"conditions":[{"type":"Mine","status":"True","lastProbeTime":null,"lastTransitionTime":null}]}}`},
	} {
		got, err := json.Marshal(c.status.Patch(claim, metav1.NewTime(dispatchertest.Noon)))
		if err != nil {
			t.Fatal(err)
		}

		if string(got) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

// What the claim's status says already is not written again.
func TestWrittenOnce(t *testing.T) {
	two := resource.MustParse("2Gi")
	for name, status := range map[string]func(claim *corev1.PersistentVolumeClaim) *Status{
		"in progress":  func(claim *corev1.PersistentVolumeClaim) *Status { return InProgress(claim, two) },
		"failing":      func(claim *corev1.PersistentVolumeClaim) *Status { return Failing(claim, two, false, "no room") },
		"refused":      func(claim *corev1.PersistentVolumeClaim) *Status { return Failing(claim, two, true, "no room") },
		"infeasible":   func(claim *corev1.PersistentVolumeClaim) *Status { return Infeasible(claim, "cannot") },
		"node pending": func(claim *corev1.PersistentVolumeClaim) *Status { return NodePending(claim, two) },
		"finished":     func(claim *corev1.PersistentVolumeClaim) *Status { return Finished(claim, two) },
	} {
		claim := boundClaim("2Gi", "")
		first := status(claim)
		if first == nil {
			t.Errorf("%s: nothing is written", name)
			continue
		}

		claim.Status = first.apply(claim, metav1.NewTime(dispatchertest.Noon))
		if again := status(claim); again != nil {
			t.Errorf("%s: %s is written again", name, again)
		}
	}
}

func TestNeeded(t *testing.T) {
	unbound := boundClaim("2Gi", "")
	unbound.Status.Phase = corev1.ClaimPending
	for name, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"no more asked":         {boundClaim("1Gi", ""), false},
		"more asked":            {boundClaim("2Gi", ""), true},
		"refused and withdrawn": {boundClaim("1Gi", corev1.PersistentVolumeClaimControllerResizeInfeasible), true},
		"the node's":            {boundClaim("1Gi", corev1.PersistentVolumeClaimNodeResizePending), false},
		"not bound":             {unbound, false},
	} {
		if got := Needed(c.claim); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDecideEdges has the moments that tell apart two conditions which come together as a rule.
func TestDecideEdges(t *testing.T) {
	for _, s := range []scene{
		{name: "delete pod starts", claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 pending"}, want: "look in 4m0s"},
		{name: "deletions stopped, provision pod starts", also: "stopped", pods: []string{"prov-0 pending"}, want: "look in 4m0s"},
		{name: "pod starting, no ConfigMap", also: "no-config", pods: []string{"prov-0 pending"}, want: ""},
		{name: "start timeout of a pod that is being deleted", pods: []string{"prov-0 pulling old deleting"}, want: "tell claim ProvisionerImagePullFailed, look in 1m0s"},
		{name: "pod starting on the selected node", also: "selected", pods: []string{"prov-0 pending"}, want: "look in 4m0s"},
		{name: "no node fits an undo for a claim with a selected node", also: "selected", pods: []string{"prov-0 failed", "del-0 unschedulable undo"},
			want: "tell claim ProvisionerUnschedulable, look in 4m0s"},
		{name: "failed while it was being deleted", pods: []string{"prov-0 failed deleting"}, want: "tell claim ProvisionerFailed, look in 500ms"},
		{name: "two retained pods, of which one stays", pods: []string{"prov-0 failed kept", "prov-1 failed kept", "prov-2 running"}, want: "clean up prov-1"},
		{name: "a retained pod is replaced once", also: "new-config", pods: []string{"prov-1 failed kept", "prov-2 refused"}, want: "tell claim ProvisionerRefused, create provision 3, clean up prov-2, clean up prov-1, (confirm)"},
	} {
		t.Run(s.name, func(t *testing.T) {
			if got := describe(Decide(s.snapshot())); got != s.want {
				t.Errorf("claim %q, volume %q, pods %q, also %q:\n got %s\nwant %s", s.claim, s.volume, s.pods, s.also, got, s.want)
			}
		})
	}
}

// TestDeadline: a pod's deadline counts from its start, where it has both.
func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		started time.Duration
		seconds int64
		want    string
	}{
		{0, 60, ""},
		{time.Minute, 0, ""},
		{59 * time.Second, 60, "look in 1s"},
		{time.Minute, 60, "tell claim ProvisionerDeadlineExceeded"},
	} {
		s := scene{pods: []string{"prov-0 running"}}.snapshot()
		pod := s.Attempts[0].Pod
		if c.started > 0 {
			pod.Status.StartTime = &metav1.Time{Time: noon.Add(-c.started)}
		}
		if c.seconds > 0 {
			pod.Spec.ActiveDeadlineSeconds = &c.seconds
		}
		if got := describe(Decide(s)); got != c.want {
			t.Errorf("started %s ago, %ds: %s, want %s", c.started, c.seconds, got, c.want)
		}
	}
}

// TestPatience: the scheduler is asked for another node half a minute after the selected one refuses the pod, and not before.
func TestPatience(t *testing.T) {
	for age, want := range map[time.Duration]string{
		29 * time.Second: "tell claim ProvisionerUnschedulable, look in 1s",
		30 * time.Second: "tell claim ProvisionerUnschedulable, stop prov-0",
	} {
		s := scene{also: "selected", pods: []string{"prov-0 unschedulable"}}.snapshot()
		s.Attempts[0].Pod.CreationTimestamp.Time = noon.Add(-age)
		if got := describe(Decide(s)); got != want {
			t.Errorf("after %s: %s, want %s", age, got, want)
		}
	}
}

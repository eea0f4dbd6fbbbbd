package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
)

// TestDecideEdges has the moments that tell apart two conditions which come together as a rule.
func TestDecideEdges(t *testing.T) {
	for _, s := range []scene{
		{name: "delete pod starts", claim: "none", volume: "fits released", pods: []string{"del-0 pending"}, want: "requeue in 4m0s"},
		{name: "deletions stopped, provision pod starts", also: "stopped", pods: []string{"prov-0 pending"}, want: "requeue in 4m0s"},
		{name: "pod starting, no ConfigMap", also: "no-config", pods: []string{"prov-0 pending"}, want: ""},
		{name: "start timeout of a pod that is being deleted", pods: []string{"prov-0 pulling old deleting"}, want: "tell claim ProvisionerImagePullFailed, requeue in 1m0s"},
		{name: "pod starting on the selected node", also: "selected", pods: []string{"prov-0 pending"}, want: "requeue in 4m0s"},
		{name: "no node fits an undo for a claim with a selected node", also: "selected", pods: []string{"prov-0 failed", "del-0 unschedulable undo"},
			want: "tell claim ProvisionerUnschedulable, requeue in 4m0s"},
		{name: "failed while it was being deleted", pods: []string{"prov-0 failed deleting"}, want: "tell claim ProvisionerFailed, save prov-0, requeue in 500ms"},
		{name: "two retained pods, of which one stays", pods: []string{"prov-0 failed kept", "prov-1 failed kept", "prov-2 running"}, want: "acknowledge prov-1"},
		{name: "a retained pod goes beside one that made the volume", claim: "bound", volume: "fits bound", pods: []string{"prov-1 failed kept", "prov-2 done"},
			want: "tell claim ProvisioningSucceeded, acknowledge prov-2, acknowledge prov-1"},
		{name: "a retained pod is replaced once", also: "new-config", pods: []string{"prov-1 failed kept", "prov-2 refused"}, want: "tell claim ProvisionerRefused, create provision 3, acknowledge prov-2, acknowledge prov-1, (confirm)"},
		{name: "claim deleted, its volume not seen to be released", claim: "none", volume: "fits", pods: []string{"prov-0 done"}, want: ""},
		{name: "misfit half removed, in a restored cluster", claim: "none", volume: "small deleting restored", also: "new-config", pods: []string{"del-0 failed misfit"},
			want: "tell volume ProvisionerFailed, create delete 1, keep the name of del-0, (confirm)"},
	} {
		t.Run(s.name, func(t *testing.T) {
			if got := describe(Decide(s.observed())); got != s.want {
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
		{29 * time.Second, 60, "requeue in 1s"},
		{30 * time.Second, 60, "tell claim ProvisionerRunsLong, requeue in 30s"},
		{59 * time.Second, 60, "tell claim ProvisionerRunsLong, requeue in 1s"},
		{time.Minute, 20, "tell claim ProvisionerDeadlineExceeded"},
		{time.Minute, 60, "tell claim ProvisionerDeadlineExceeded"},
	} {
		s := scene{pods: []string{"prov-0 running"}}.observed()
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
		29 * time.Second: "tell claim ProvisionerUnschedulable, requeue in 1s",
		30 * time.Second: "tell claim ProvisionerUnschedulable, stop prov-0",
	} {
		s := scene{also: "selected", pods: []string{"prov-0 unschedulable"}}.observed()
		s.Attempts[0].Pod.CreationTimestamp.Time = noon.Add(-age)
		if got := describe(Decide(s)); got != want {
			t.Errorf("after %s: %s, want %s", age, got, want)
		}
	}
}

// TestQuietSuccess: in a quiet class the event is for the log where the first attempt made a volume and nothing was amiss.
func TestQuietSuccess(t *testing.T) {
	for _, c := range []struct {
		scene
		loud bool
		want bool
	}{
		{scene: scene{volume: "fits", pods: []string{"prov-0 done"}}, want: true},
		{scene: scene{volume: "fits", pods: []string{"prov-0 done"}}, loud: true},
		{scene: scene{volume: "fits", pods: []string{"prov-1 done"}}},
		{scene: scene{volume: "fits bare", pods: []string{"prov-0 done"}}},
	} {
		s := c.observed()
		s.Quiet = !c.loud
		p := Decide(s)
		if e := p.Events[len(p.Events)-1]; e.Reason != events.ReasonSucceeded || e.LogOnly != c.want {
			t.Errorf("volume %q, pods %q, loud %t: %+v", c.volume, c.pods, c.loud, e)
		}
	}
}

// TestDeleteLimit: the limit itself may be reached, and 0 is none.
func TestDeleteLimit(t *testing.T) {
	for _, c := range []struct{ limit, recent int }{{0, 1000}, {2, 2}} {
		s := scene{claim: "none", volume: "fits released old"}.observed()
		s.DeleteLimit, s.RecentDeletions = c.limit, c.recent
		if got := describe(Decide(s)); got != "create delete 0, (confirm)" {
			t.Errorf("%d of %d: %s", c.recent, c.limit, got)
		}
	}
}

// TestFailedBeforeItsContainer: a pod that came to the selected node and failed there before its container began says nothing against
// the node, and is told of.
func TestFailedBeforeItsContainer(t *testing.T) {
	s := scene{also: "selected", pods: []string{"prov-0 failed"}}.observed()
	pod := s.Attempts[0].Pod
	ended := pod.Status.ContainerStatuses[0].State
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "flexctl", State: ended}}
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	s.Attempts[0] = observed.NewAttempt(pod, "")
	s.Attempts[0].Outcome.Finished = ended.Terminated.FinishedAt.Time
	if got, want := describe(Decide(s)), "tell claim ProvisionerStartFailed, requeue in 500ms"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

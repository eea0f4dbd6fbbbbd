package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestSilence: what the scheduler, or a pod's node, does not say of the pod, is told after ten seconds.
func TestSilence(t *testing.T) {
	const node, remedy = "node node1", "; bring the node back, or if it never comes back: kubectl delete node node1"
	scheduled := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(noon.Add(-5 * time.Second))}}
	}
	ready := func(is corev1.ConditionStatus) func(pod *corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is}}
		}
	}
	silent := func(pod *corev1.Pod) { pod.Status.ContainerStatuses = nil }
	unbound := func(pod *corev1.Pod) { pod.Spec.NodeName, pod.Status.ContainerStatuses = "", nil }

	for _, c := range []struct {
		name, claim, pod string
		is               func(pod *corev1.Pod)
		want             string // requeue in, or reason and message
	}{
		{"no scheduler", "", "prov-0 pending", unbound, "ProvisionerUnschedulable: the scheduler has said nothing of the pod for 10s: see whether kube-scheduler runs"},
		{"no kubelet", "", "prov-0 pending", silent, "ProvisionerNodeLost: the kubelet of " + node + " has said nothing of the pod for 20s: see whether it runs"},
		{"given a node a moment ago", "", "prov-0 pending", func(pod *corev1.Pod) { silent(pod); scheduled(pod) }, "15s"},
		{"taken by its kubelet", "", "prov-0 pending", func(pod *corev1.Pod) { silent(pod); pod.Status.StartTime = &pod.CreationTimestamp }, "4m0s"},
		{"pulling", "", "prov-0 pulling", func(*corev1.Pod) {}, "ProvisionerImagePullFailed: image i cannot be had: ErrImagePull: not found"},
		{"node not ready", "", "prov-0 running", ready(corev1.ConditionFalse), "ProvisionerNodeLost: " + node + " is not ready, and does not say whether the pod still runs" + remedy},
		{"another container not ready", "", "prov-0 running", func(pod *corev1.Pod) {
			ready(corev1.ConditionFalse)(pod)
			pod.Status.Conditions[0].Reason = "ContainersNotReady"
		}, ""},
		{"node ready", "", "prov-0 running", ready(corev1.ConditionTrue), ""},
		{"not ready, as somebody deletes it", "", "prov-0 running deleting", ready(corev1.ConditionFalse), "1m0s"},
		{"claim gone", "none", "prov-0 running", func(*corev1.Pod) {}, "ProvisionerUndo: the claim is deleted: the storage that the pod makes is removed once the pod has ended; " +
			"to end it now: kubectl -n ns delete pod prov-" + uid + "-0"},
		{"claim gone, and node not ready", "none", "prov-0 running", ready(corev1.ConditionFalse), "ProvisionerNodeLost: " + node + " is not ready, and does not say whether the pod still runs" + remedy},
		{"claim bound elsewhere", "elsewhere", "prov-0 running", func(*corev1.Pod) {}, ""},
	} {
		s := scene{claim: c.claim, pods: []string{c.pod}}.observed()
		c.is(s.Attempts[0].Pod)
		s.Attempts[0].Outcome = podspec.OutcomeOf(s.Attempts[0].Pod)

		p, got := Decide(s), ""
		if n := len(p.Events); n > 0 {
			got = string(p.Events[n-1].Reason) + ": " + p.Events[n-1].Message
			const of = " (pod ns/prov-" + uid + "-0)"
			c.want += map[bool]string{true: of}[p.Events[n-1].Reason != "ProvisionerUndo"]
		} else if !p.RequeueAt.IsZero() {
			got = p.RequeueAt.Sub(noon).String()
		}

		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestRuntimeDown: a kubelet whose container runtime is away says so of its node, and nothing of the pods on it.
func TestRuntimeDown(t *testing.T) {
	s := scene{pods: []string{"prov-0 running"}}.observed()
	node := s.Attempts[0].Pod.Spec.NodeName
	s.AttemptNode = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Message: "container runtime is down"}}}}

	want := "node " + node + " is not ready (container runtime is down), and does not say whether the pod still runs; bring the node back, " +
		"or if it never comes back: kubectl delete node " + node + " (pod ns/prov-" + uid + "-0)"
	told := Decide(s).Events
	if len(told) != 1 || told[0].Reason != events.ReasonNodeLost || told[0].Message != want {
		t.Errorf("%v, want ProvisionerNodeLost: %s", told, want)
	}
}

// TestMayNotCreateVolumes: RBAC names neither the binding that is missing, nor who has it.
func TestMayNotCreateVolumes(t *testing.T) {
	const refused = `persistentvolumes is forbidden: User "x" cannot create resource "persistentvolumes" in API group "" at the cluster scope`
	s := scene{pods: []string{"prov-0 failed"}}.observed()
	s.Attempts[0].Pod.Status.ContainerStatuses[0].State.Terminated.Message = refused
	s.Attempts[0].Outcome = podspec.OutcomeOf(s.Attempts[0].Pod)
	const want = refused + ": apply deploy/base again, whose ClusterRoleBinding flex-provisioner-pod lets provisioner pods " +
		"create volumes (pod ns/prov-" + uid + "-0)"
	if e, _ := failure(s, s.Attempts[0]); e.Message != want {
		t.Errorf("%s, want %s", e.Message, want)
	}
}

// TestDeletedWhileItRan: who reads the event learns that the pod was deleted, and that it goes on.
func TestDeletedWhileItRan(t *testing.T) {
	s := scene{pods: []string{"prov-0 killed deleting"}}.observed()
	const want = "somebody deleted the pod while it ran, or drained its node: the container exited with code 137 " +
		"(it was ended by signal SIGKILL); the next attempt follows (pod ns/prov-" + uid + "-0)"
	e, ok := failure(s, s.Of(contract.Provision)[0])
	if !ok || e.Message != want || e.Reason != podspec.ReasonEvicted {
		t.Errorf("%s: %s, want %s", e.Reason, e.Message, want)
	}
}

package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// copying makes the scene's claim one of node-local storage whose data is on node7, while its consumer is on node1.
func copying(of scene) *observed.Claim {
	s := of.observed()
	s.Config.NodeLocal = true
	volume := dispatchertest.Volume("fits bound")
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: onNode("node7").NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
	s.Class.Parameters = map[string]string{contract.ParameterSmartClone: "true"}
	s.Claim.Annotations[contract.AnnCloneRequest] = "original"
	s.Source = observed.CloneSource{
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "original", UID: volume.Spec.ClaimRef.UID},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}},
		Volume: volume,
	}

	return s
}

// TestPinned: node-local data is copied where it is, whatever node the scheduler selected for the consumer, and no other node is asked for.
func TestPinned(t *testing.T) {
	for _, c := range []struct {
		name string
		pods []string
		want string
		told string // the message's end
	}{
		{name: "first attempt", want: "create provision 0, (confirm)"},
		{name: "nobody takes it", pods: []string{"prov-0 unschedulable"}, want: "tell claim ProvisionerUnschedulable, requeue in 4m0s",
			told: "the pod has to run on node node7, which does not take it: 0/1 nodes; the data to copy is on the node with kubernetes.io/hostname In (node7)"},
		{name: "it cannot work there", pods: []string{"prov-0 nothere"}, want: "tell claim ProvisionerNotHere, requeue in 500ms",
			told: "the container exited with code 69 (it cannot work on this node) and left no message"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := copying(scene{pods: c.pods, also: "selected"})
			for i, a := range s.Attempts {
				if a.Outcome.Reason == podspec.ReasonUnschedulable {
					a.Pod.Spec.Affinity = onNode("node7")
					s.Attempts[i] = observed.NewAttempt(a.Pod, "")
				}
			}

			plan := Decide(s)
			if got := describe(plan); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}

			want := c.told + " (pod ns/prov-" + uid + "-0)"
			if c.told != "" && (len(plan.Events) == 0 || plan.Events[0].Message != want) {
				t.Errorf("told %+v, want %q", plan.Events, want)
			}
		})
	}
}

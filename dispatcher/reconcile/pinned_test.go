package reconcile

import (
	"strings"
	"testing"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// restoring makes the scene's claim one of node-local storage that is restored from a snapshot on node7. Its consumer is on node1.
func restoring(t *testing.T, of scene) *observed.Claim {
	t.Helper()

	volume := dispatchertest.Volume("fits bound")
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{
		Required: onNode("node7").NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution}
	content := shot{content: "finished recordless"}.contentOf(t, strings.Contains)
	if err := dispatchertest.Key.RecordContent(content, volume); err != nil {
		t.Fatal(err)
	}

	dispatchertest.Key.MarkContent(content)

	s := of.observed()
	s.Provisioner, s.Config.NodeLocal, s.Config.Snapshots = "p", true, true
	s.Claim.Spec.DataSource = &corev1.TypedLocalObjectReference{
		APIGroup: new(snapshotv1.GroupName), Kind: "VolumeSnapshot", Name: content.Spec.VolumeSnapshotRef.Name}
	s.SetSnapshotSource(func(namespace, name string) *snapshotv1.VolumeSnapshot {
		return &snapshotv1.VolumeSnapshot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: content.Spec.VolumeSnapshotRef.UID},
			Status: &snapshotv1.VolumeSnapshotStatus{BoundVolumeSnapshotContentName: &content.Name}}
	}, func(string) *snapshotv1.VolumeSnapshotContent { return content }, nil)

	return s
}

// TestPinned: a node-local snapshot is restored where it is, whatever node the scheduler selected for the consumer, and no other node is asked for.
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
			s := restoring(t, scene{pods: c.pods, also: "selected"})
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

package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// onNode is an affinity to the node with that host name.
func onNode(name string) *corev1.Affinity {
	in := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}

	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{in}}}}}}
}

// TestGivesUp: the storage of a node is given up once the node has been gone for as long as the class says, and not while anything else is
// known or in doubt. The time is the volume's, so that a dispatcher that has just started goes by it.
func TestGivesUp(t *testing.T) {
	const waits, unplaced = "tell volume ProvisionerUnschedulable", "del-0 unschedulable"
	for _, s := range []scene{
		{name: "the class does not give up", volume: "fits released node-gone", pods: []string{unplaced}, also: "no-node",
			want: waits + ", requeue in 4m0s"},
		{name: "nobody has asked", volume: "fits released", pods: []string{unplaced}, also: "gives-up",
			want: waits + ", requeue in 4m0s, (confirm)"},
		{name: "the node is gone", volume: "fits released", pods: []string{unplaced}, also: "gives-up no-node",
			want: waits + ", node gone since 0s, requeue in 4m0s, (confirm)"},
		{name: "the node exists", volume: "fits released", pods: []string{unplaced}, also: "gives-up has-node",
			want: waits + ", requeue in 4m0s, (confirm)"},
		{name: "not for long enough", volume: "fits released node-gone", pods: []string{unplaced}, also: "gives-up-late no-node",
			want: waits + ", requeue in 4m0s, (confirm)"},
		{name: "for long enough, and nobody has asked", volume: "fits released node-gone", pods: []string{unplaced}, also: "gives-up",
			want: waits + ", requeue in 4m0s, (confirm)"},
		{name: "for long enough, and it is back", volume: "fits released node-gone", pods: []string{unplaced}, also: "gives-up has-node",
			want: waits + ", node is back, requeue in 4m0s, (confirm)"},
		{name: "for long enough", volume: "fits released node-gone", pods: []string{unplaced}, also: "gives-up no-node",
			want: "stop del-0, requeue in 5m0s, (confirm)"},
		{name: "its delete was stopped", volume: "fits released node-gone", pods: []string{"prov-0 done", "del-0 unstarted full"}, also: "gives-up no-node",
			want: "acknowledge prov-0, acknowledge del-0, requeue in 5m0s, (confirm)"},
		{name: "no pod is left", volume: "fits released node-gone", also: "gives-up no-node",
			want: "tell volume StorageGivenUp, give the volume up, requeue in 5m0s, (confirm)"},
		{name: "no pod is left, and it is back", volume: "fits released node-gone", also: "gives-up has-node",
			want: "node is back, create delete 0, requeue in 5m0s, (confirm)"},
		{name: "no pod is left, and nobody has asked", volume: "fits released node-gone", also: "gives-up",
			want: "create delete 0, requeue in 5m0s, (confirm)"},
		{name: "a delete has a node", volume: "fits released node-gone", pods: []string{"del-0 running"}, also: "gives-up no-node",
			want: "requeue in 5m0s, (confirm)"},
		{name: "a delete has removed it", volume: "fits released node-gone", pods: []string{"del-0 done"}, also: "gives-up no-node",
			want: "delete volume"},
		{name: "deletions are stopped", volume: "fits released node-gone", pods: []string{unplaced}, also: "gives-up no-node stopped",
			want: "tell volume DeletionStopped, requeue in 5m0s, (confirm)"},
		{name: "too many are to go", volume: "fits released old node-gone", pods: []string{unplaced}, also: "gives-up no-node limited",
			want: "tell volume DeletionLimit, requeue in 5m0s, (confirm)"},
		{name: "an administrator is asked", volume: "fits released restored node-gone", also: "gives-up no-node",
			want: "tell volume DeletionHeld, requeue in 5m0s, (confirm)"},
		{name: "the time is that of a volume that was restored from this one", volume: "fits released node-of-another", pods: []string{unplaced}, also: "gives-up no-node",
			want: waits + ", node gone since 0s, requeue in 4m0s, (confirm)"},
		{name: "the time is from before the volume", volume: "fits released node-gone-early", pods: []string{unplaced}, also: "gives-up no-node",
			want: waits + ", node gone since 0s, requeue in 4m0s, (confirm)"},
		{name: "it is retained", volume: "fits released retain node-gone", also: "gives-up no-node", want: "take the finalizer off, (confirm)"},
	} {
		s.claim = "none"
		s.also += " node-local"
		t.Run(s.name, func(t *testing.T) {
			if got := describe(Decide(s.observed())); got != s.want {
				t.Errorf("volume %q, pods %q, also %q:\n got %s\nwant %s", s.volume, s.pods, s.also, got, s.want)
			}
		})
	}
}

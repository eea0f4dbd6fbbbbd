package progress

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

// TestStanding: operation and phase of a claim, for how long it waits, and which of the operations has come about.
func TestStanding(t *testing.T) {
	early := func(s *observed.Claim) {
		if s.Claim != nil {
			s.Claim.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
			if s.Claim.Spec.VolumeName != "" {
				s.Claim.Status.Phase = corev1.ClaimBound
			}
		}

		if s.Volume != nil {
			at := metav1.NewTime(noon.Add(-2 * time.Hour))
			s.Volume.Status.LastPhaseTransitionTime = &at
		}

		s.WantedSince = noon.Add(-time.Second)
	}
	for _, c := range []scene{
		{name: "new", want: "provision Waiting 1h0m0s"},
		{name: "its node was chosen late", also: "selected", want: "provision Waiting 1s"},
		{name: "and an attempt was made before this dispatcher knew", also: "selected", pods: []string{"prov-0 running"}, want: "provision Running 1m0s"},
		{name: "its author has to change it", also: "selector", want: "provision Blocked 1h0m0s"},
		{name: "and an administrator the class", also: "selector no-config", want: "provision Waiting 1h0m0s"},
		{name: "starting", pods: []string{"prov-0 pending"}, want: "provision Starting 1h0m0s"},
		{name: "failed", pods: []string{"prov-0 failed"}, want: "provision Failed 1h0m0s"},
		{name: "failed, and kept by something else since", pods: []string{"prov-0 failed"}, also: "no-config", want: "provision Waiting 1h0m0s"},
		{name: "made, not bound", volume: "fits", pods: []string{"prov-0 done"}, want: "provision Waiting 1h0m0s"},
		{name: "bound", claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}, want: "nothing; came about: provision expand"},
		{name: "bound to a volume that is lost", claim: "bound", want: "nothing; came about: provision"},
		{name: "released", claim: "none", volume: "fits released", want: "delete Waiting 2h0m0s"},
		{name: "held", claim: "none", volume: "fits released", also: "stopped", want: "delete Held 2h0m0s"},
		{name: "deleting", claim: "none", volume: "fits released", pods: []string{"del-0 running"}, want: "delete Running 2h0m0s"},
		{name: "deleted by an administrator", claim: "none", volume: "fits available deleting", want: "delete Held 0s"},
		{name: "deleted by an administrator, and still bound", claim: "bound", volume: "fits bound deleting", want: "nothing; came about: provision expand"},
		{name: "its claim is going, and the volume will be", claim: "deleting", volume: "fits bound", want: "delete Waiting 0s"},
		{name: "its claim is gone, and the volume does not say so yet", claim: "none", volume: "fits bound", want: "nothing"},
		{name: "another provisioner's volume has the name", claim: "none", volume: "fits foreign", want: "nothing"},
		{name: "its claim is going", claim: "deleting", want: "nothing"},
		{name: "bound to another volume", claim: "elsewhere", want: "nothing"},
		{name: "gone, its record not yet", claim: "none", pods: []string{"del-0 done"}, want: "nothing; came about: delete"},
		{name: "gone, none of its records yet", claim: "none", pods: []string{"prov-0 done", "del-0 done"}, want: "nothing; came about: delete"},
		{name: "undone too early", claim: "none", pods: []string{"prov-0 failed", "del-0 done early"}, want: "undo Waiting 1m50s; came about: delete"},
		{name: "undoing", claim: "none", pods: []string{"prov-0 failed", "del-0 failed undo"}, want: "undo Failed 1m0s; came about: delete"},
	} {
		s := c.observed()
		early(s)
		st := Of(s, reconcile.Decide(s))
		got := fmt.Sprint(st.Operation, " ", st.Phase, " ", s.Now.Sub(st.Since))
		if st.Operation == "" {
			got = "nothing"
		}

		come := ""
		for _, op := range []string{"provision", "delete", "expand", "undo"} {
			if op != st.Operation && Served(s, op) && (op != "delete" || s.Claim == nil) {
				come += " " + op
			}
		}

		if come != "" {
			got += "; came about:" + come
		}

		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestStandingOfExpansion: a claim waits for its expansion where it asks for more, where its status speaks of one, and where a pod of one
// is left; and it waits since the first that its conditions tell.
func TestStandingOfExpansion(t *testing.T) {
	condition := func(kind corev1.PersistentVolumeClaimConditionType, ago time.Duration) corev1.PersistentVolumeClaimCondition {
		return corev1.PersistentVolumeClaimCondition{Type: kind, LastTransitionTime: metav1.NewTime(noon.Add(-ago))}
	}
	const resizing, failing, pending = corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimFileSystemResizePending
	for _, c := range []struct {
		name string
		observedtest.Growth
		want       string
		conditions []corev1.PersistentVolumeClaimCondition
		since      time.Duration // 0 for unknown
	}{
		{name: "as large as asked", Growth: observedtest.Growth{Asked: "1Gi"}, want: "nothing, came about: true"},
		{name: "larger than asked", Growth: observedtest.Growth{Asked: "512Mi"}, want: "nothing, came about: true"},
		{name: "asked", Growth: observedtest.Growth{Asked: "2Gi"}, want: "expand Waiting, came about: false"},
		{name: "marked, withdrawn", Growth: observedtest.Growth{Asked: "1Gi", Status: "infeasible"}, want: "expand Waiting, came about: false"},
		{name: "a pod is left, withdrawn", Growth: observedtest.Growth{Asked: "1Gi", Pods: []string{"exp-0:2Gi failed"}}, want: "expand Waiting, came about: false"},
		{name: "running", Growth: observedtest.Growth{Asked: "2Gi", Status: "progress 2Gi", Pods: []string{"exp-0:2Gi running"}}, want: "expand Running, came about: false",
			conditions: []corev1.PersistentVolumeClaimCondition{condition(resizing, time.Minute)}, since: time.Minute},
		{name: "failed", Growth: observedtest.Growth{Asked: "2Gi", Status: "progress 2Gi", Pods: []string{"exp-0:2Gi failed"}}, want: "expand Failed, came about: false",
			conditions: []corev1.PersistentVolumeClaimCondition{condition(pending, 4*time.Minute), condition(failing, time.Minute), condition(resizing, 3*time.Minute), condition(resizing, 2*time.Minute)}, since: 3 * time.Minute},
		{name: "refused before a pod", Growth: observedtest.Growth{Asked: "2Gi", Status: "infeasible", Also: "unable"}, want: "expand Waiting, came about: false",
			conditions: []corev1.PersistentVolumeClaimCondition{condition(failing, time.Minute)}, since: time.Minute},
		{name: "the node's turn", Growth: observedtest.Growth{Asked: "2Gi", Made: "2Gi", Status: "pending 2Gi", Volume: "local"}, want: "nothing, came about: true",
			conditions: []corev1.PersistentVolumeClaimCondition{condition(pending, time.Minute)}},
		{name: "another provisioner's volume", Growth: observedtest.Growth{Asked: "2Gi", Volume: "foreign"}, want: "nothing, came about: false"},
	} {
		s := c.Observed()
		s.Claim.Status.Conditions = c.conditions
		st := Of(s, reconcile.Decide(s))
		got := fmt.Sprint(st.Operation, " ", st.Phase)
		if st.Operation == "" {
			got = "nothing"
		}

		if got += fmt.Sprint(", came about: ", Served(s, "expand")); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}

		if want := noon.Add(-c.since); c.since != 0 && !st.Since.Equal(want) || c.since == 0 && !st.Since.IsZero() {
			t.Errorf("%s: since %s, want %s", c.name, st.Since, want)
		}
	}
}

// TestAttemptOf: an undo is a delete's attempt, and what runs counts, whatever it is.
func TestAttemptOf(t *testing.T) {
	for _, c := range []struct {
		pods []string
		want map[string]string
	}{
		{nil, map[string]string{"provision": "", "undo": ""}},
		{[]string{"prov-0 failed", "prov-1 failed", "del-0 failed undo"}, map[string]string{"provision": "prov-" + uid + "-1", "undo": "del-" + uid + "-0", "delete": "del-" + uid + "-0", "expand": ""}},
		{[]string{"prov-0 failed", "del-0 running undo"}, map[string]string{"provision": "del-" + uid + "-0"}},
	} {
		s := scene{pods: c.pods}.observed()
		for op, want := range c.want {
			name := ""
			if a, ok := AttemptOf(s, op); ok {
				name = a.Pod.Name
			}

			if name != want {
				t.Errorf("%s of %q: %q, want %q", op, c.pods, name, want)
			}
		}
	}
}

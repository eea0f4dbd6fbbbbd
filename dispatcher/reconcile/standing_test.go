package reconcile

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
)

// TestStanding: operation and phase of a claim, for how long it waits, and which of the operations has come about.
func TestStanding(t *testing.T) {
	early := func(s *snapshot.Snapshot) {
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
		{name: "released", claim: "none", volume: "fits released", also: "asked", want: "delete Waiting 2h0m0s"},
		{name: "held", claim: "none", volume: "fits released", also: "asked stopped", want: "delete Held 2h0m0s"},
		{name: "deleting", claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 running"}, want: "delete Running 2h0m0s"},
		{name: "gone, its record not yet", claim: "none", pods: []string{"del-0 done"}, want: "nothing; came about: delete"},
		{name: "gone, none of its records yet", claim: "none", pods: []string{"prov-0 done", "del-0 done"}, want: "nothing; came about: delete"},
		{name: "undone too early", claim: "none", pods: []string{"prov-0 failed", "del-0 done early"}, want: "undo Waiting 1m50s; came about: delete"},
		{name: "undoing", claim: "none", pods: []string{"prov-0 failed", "del-0 failed undo"}, want: "undo Failed 1m0s; came about: delete"},
	} {
		s := c.snapshot()
		early(s)
		st := StandingOf(s, Decide(s))
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

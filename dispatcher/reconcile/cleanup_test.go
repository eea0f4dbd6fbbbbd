package reconcile

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// What stays for its name alone, so that a leader with an old cache finds it taken.
func TestNameNeeded(t *testing.T) {
	for _, c := range []struct {
		scene
		stays bool // the oldest pod
	}{
		{scene{name: "first attempt of a claim that waits", pods: []string{"prov-0 failed kept", "prov-1 running"}}, true},
		{scene{name: "newest attempt of a claim that waits", pods: []string{"prov-3 failed kept"}}, true},
		{scene{name: "an attempt between", pods: []string{"prov-1 failed kept", "prov-2 running"}}, false},
		{scene{name: "first attempt of a claim that is gone", claim: "none", pods: []string{"prov-0 failed kept", "del-0 running"}}, false},
		{scene{name: "first attempt of a claim that does not wait, while another one runs", claim: "none", pods: []string{"prov-0 failed kept", "prov-1 running"}}, true},
		{scene{name: "first of several deletes", claim: "none", volume: "fits released", pods: []string{"del-0 failed kept", "del-1 running"}}, true},
		{scene{name: "first of several undos", claim: "none", pods: []string{"del-0 failed kept", "del-2 failed"}}, true},
		{scene{name: "a delete between", claim: "none", volume: "fits released", pods: []string{"del-1 failed kept", "del-2 running"}}, false},
		{scene{name: "first of deletes that are over", claim: "none", pods: []string{"del-0 failed kept"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.observed()
			if got := nameNeeded(s, s.Retained[0]); got != c.stays {
				t.Errorf("pod %s stays: %t, want %t", s.Retained[0].Pod.Name, got, c.stays)
			}
		})
	}
}

// A failed pod stays for the class's failed-pod-ttl, counted from its end.
func TestFailedPodTTL(t *testing.T) {
	for _, c := range []struct {
		scene
		ttl  time.Duration
		want AcknowledgePod
		look time.Duration
	}{
		{scene{name: "none", claim: "none", pods: []string{"prov-0 refused"}}, 0, AcknowledgePod{}, 0},
		{scene{name: "acted on", claim: "none", pods: []string{"prov-0 refused"}}, time.Minute, AcknowledgePod{Keep: time.Minute}, 0},
		{scene{name: "a success", claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}, time.Minute, AcknowledgePod{}, 0},
		{scene{name: "kept", claim: "none", pods: []string{"prov-0 refused kept"}}, time.Minute, AcknowledgePod{Keep: 59500 * time.Millisecond}, 59500 * time.Millisecond},
		{scene{name: "its time is over", claim: "none", pods: []string{"prov-0 refused kept"}}, 100 * time.Millisecond, AcknowledgePod{}, 0},
		{scene{name: "kept, and gone with its log", claim: "none", pods: []string{"prov-0 refused kept gone"}}, time.Minute, AcknowledgePod{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.observed()
			s.Config.FailedPodTTL = c.ttl
			p := Decide(s)
			got, ok := Find[AcknowledgePod](p)
			c.want.Attempt = s.All()[0]
			if !ok || got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}

			if look := p.RequeueAt.Sub(noon); !p.RequeueAt.IsZero() != (c.look > 0) || c.look > 0 && look != c.look {
				t.Errorf("looks again after %s, want %s", look, c.look)
			}
		})
	}
}

// What only ends attempts may wait while users of the class do.
func TestDeferrable(t *testing.T) {
	for _, c := range []struct {
		scene
		want bool
	}{
		{scene{name: "claim bound", claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}, true},
		{scene{name: "claim to be bound", volume: "fits", pods: []string{"prov-0 done"}}, false},
		{scene{name: "volume gone", claim: "none", pods: []string{"del-0 done"}}, true},
		{scene{name: "volume to go", claim: "none", volume: "fits released", pods: []string{"del-0 done"}}, false},
		{scene{name: "undone, claim waits", pods: []string{"prov-0 failed", "del-0 done"}}, false},
		{scene{name: "nothing to do", claim: "bound", volume: "fits bound"}, false},
		{scene{name: "a pod that somebody deletes", claim: "bound", volume: "fits bound", pods: []string{"prov-0 done deleting"}}, false},
		{scene{name: "an expansion", claim: "bound", volume: "fits bound", pods: []string{"exp-0 done other"}}, false},
		{scene{name: "an attempt of a claim that is gone", claim: "none", pods: []string{"prov-0 refused"}}, false},
		{scene{name: "an attempt of before, while the claim waits", pods: []string{"prov-0 failed kept", "prov-1 failed kept", "prov-2 running"}}, false},
		{scene{name: "an attempt of before, while the undo is stopped", claim: "none", also: "stopped", pods: []string{"prov-0 failed kept", "prov-1 failed"}}, false},
		{scene{name: "a volume to be repaired", claim: "bound", volume: "bare fits bound", pods: []string{"prov-0 done"}}, false},
		{scene{name: "a retained pod", claim: "none", pods: []string{"prov-1 failed kept"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.observed()
			p := Decide(s)
			node, got := p.Deferrable(s)
			if got != c.want || got != (node == "node1") {
				t.Fatalf("deferrable: %t on %q, want %t: %s", got, node, c.want, describe(p))
			}

			if p.Defer(noon.Add(time.Minute)); got && describe(p) != describe(Plan{Events: p.Events, RequeueAt: noon.Add(time.Minute)}) {
				t.Errorf("deferred: %s", describe(p))
			}
		})
	}
}

// Whoever waits for the class's concurrency is told where it looks, and not before it has waited for a while: see docs/events.md.
func TestWaitForSlot(t *testing.T) {
	claim, volume, record := &corev1.PersistentVolumeClaim{}, &corev1.PersistentVolume{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "record"}}
	for _, c := range []struct {
		name string
		s    observed.Claim
		spec observed.AttemptSpec
		want events.Target
	}{
		{"a claim without a volume", observed.Claim{Claim: claim}, observed.AttemptSpec{Op: contract.Provision}, events.OnClaim},
		{"a volume to be removed", observed.Claim{Volume: volume}, observed.AttemptSpec{Op: contract.Delete}, events.OnVolume},
		{"an unfit volume to be removed", observed.Claim{Claim: claim, Volume: volume}, observed.AttemptSpec{Op: contract.Delete}, events.OnVolume},
		{"a volume to be expanded", observed.Claim{Claim: claim, Volume: volume}, observed.AttemptSpec{Op: contract.Expand}, events.OnClaim},
		{"an undo for a claim that waits", observed.Claim{Claim: claim}, observed.AttemptSpec{Op: contract.Delete, MadeBy: record}, events.OnClaim},
		{"an undo for a claim that is gone", observed.Claim{}, observed.AttemptSpec{Op: contract.Delete, MadeBy: record}, events.OnPod},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.Now, c.s.ClassName, c.s.Config = noon, "silver", scene{}.observed().Config
			c.s.Config.MaxConcurrent = 2
			p := Plan{Confirm: Everything, Actions: []Action{CreatePod{c.spec}}}
			if p.WaitForSlot(&c.s, c.spec, 2, noon.Add(time.Second)); describe(p) != "requeue in 1s" {
				t.Errorf("at first: %s", describe(p))
			}

			want := events.Event{On: c.want, Pod: c.spec.MadeBy, Reason: events.ReasonConcurrency, Key: "ConcurrencyLimitReached",
				Message: "waiting for other provisioner pods of StorageClass silver to end: 2 of at most 2 (max-concurrent) are running or starting; namespaces take turns, and no action is needed"}
			p = Plan{}
			if p.WaitForSlot(&c.s, c.spec, 2, noon); len(p.Events) != 1 || p.Events[0] != want || !p.RequeueAt.IsZero() {
				t.Errorf("told %+v, want %+v", p, want)
			}
		})
	}
}

package chaos

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// ownPodNotSeenYet: the watch of pods lags from a second on, and the claim goes soon after.
func ownPodNotSeenYet(seed uint64, second int) sim.Plan {
	at := time.Duration(second) * time.Second
	return sim.Plan{Seed: seed, Claims: 1, Nodes: 1, Classes: []sim.Class{{Name: "class-0"}}, Length: 60 * time.Second,
		Rates: map[string]float64{"no-volume": 1},
		Actions: []sim.Action{{At: time.Second, Do: "claim-create"}, {At: at, Do: "watch-lag-pods", For: 8 * time.Second},
			{At: at + 1500*time.Millisecond, Do: "claim-delete"}}}
}

// TestOwnPodNotSeenYet: one dispatcher, whose watch of pods lags behind its own creation of a retry, while the claim goes
// away. It must not undo beside the retry. Two mechanisms see to that, each of which is enough: the pod that was created last
// is waited or asked for, and the pods of the claim are listed before another is made. Without both the first seed finds it.
func TestOwnPodNotSeenYet(t *testing.T) {
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		for second := 3; second < 12; second++ {
			plan := ownPodNotSeenYet(seed, second)
			if r := run(t, plan, sim.Options{}); len(r.Violations) > 0 {
				trace := fmt.Sprint(r.Trace)
				t.Fatalf("seed %d:\n%s\n%s\n%s", seed, plan, trace, strings.Join(r.Violations, "\n"))
			}
		}
	}
}

// TestOwnPodNotSeenYetAndPropertiesChanged: as before, but the class's properties change instead. What is undone is then
// the storage of a volume in use.
func TestOwnPodNotSeenYetAndPropertiesChanged(t *testing.T) {
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		for second := 3; second < 12; second++ {
			at := time.Duration(second) * time.Second
			plan := sim.Plan{Seed: seed, Claims: 1, Nodes: 1, Classes: []sim.Class{{Name: "class-0"}}, Length: 60 * time.Second,
				Rates: map[string]float64{"no-volume": 0.5},
				Actions: []sim.Action{{At: time.Second, Do: "claim-create"}, {At: at, Do: "watch-lag-pods", For: 8 * time.Second},
					{At: at + 1500*time.Millisecond, Do: "config-identity", N: 0}}}
			if r := run(t, plan, sim.Options{}); strings.Contains(strings.Join(r.Violations, "\n"), "is bound to") {
				t.Fatalf("seed %d:\n%s\n%s\n%s", seed, plan, r.Trace, strings.Join(r.Violations, "\n"))
			}
		}
	}
}

// TestLeaderWithOldCaches: one of two leaders hears of nothing while the other serves claims, and then of claims before it
// hears of their pods.
func TestLeaderWithOldCaches(t *testing.T) {
	if alone {
		t.Skip("needs two leaders")
	}
	found := false
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		plan := sim.Plan{Seed: seed, Claims: 3, Nodes: 1, Classes: []sim.Class{{Name: "class-0"}}, Length: 90 * time.Second,
			Rates: map[string]float64{"exit-1": 0.6},
			Actions: []sim.Action{{At: 10 * time.Second, Do: "dispatcher-stale", N: 1, For: time.Duration(5+seed) * time.Second},
				{At: 17 * time.Second, Do: "claim-create"}, {At: 17 * time.Second, Do: "claim-create", N: 1}, {At: 17 * time.Second, Do: "claim-create", N: 2}}}
		if r := run(t, plan, sim.Options{}); len(r.Violations) > 0 {
			t.Fatalf("seed %d:\n%s\n%s\n%s", seed, plan, r.Trace, strings.Join(r.Violations, "\n"))
		}
		r := run(t, plan, sim.Options{Wrap: noTombstone})
		found = found || strings.Contains(strings.Join(r.Violations, "\n"), " starts while ")
	}
	if !found {
		t.Error("these plans would not find it if no settled pod stayed")
	}
}

// TestRemovalByOldAttachments: a claim goes with its workload while a new leader has not heard of the VolumeAttachment. Its
// storage stays until the node does not reach it any more.
func TestRemovalByOldAttachments(t *testing.T) {
	if alone {
		t.Skip("needs two leaders")
	}
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		plan := sim.Plan{Seed: seed, Claims: 1, Nodes: 2, Classes: []sim.Class{{Name: "class-0", Stager: "iscsi"}},
			Length: 2 * time.Minute, Actions: []sim.Action{{At: time.Second, Do: "claim-create"}, {At: 30 * time.Second, Do: "attach-start"},
				{At: 59 * time.Second, Do: "dispatcher-old-lists", For: 40 * time.Second},
				{At: time.Minute, Do: "watch-lag-attachments", For: 50 * time.Second}, {At: 61 * time.Second, Do: "claim-delete"}}}
		if r := run(t, plan, sim.Options{}); len(r.Violations) > 0 {
			t.Fatalf("seed %d:\n%s\n%s\n%s", seed, plan, r.Trace, strings.Join(r.Violations, "\n"))
		}
	}
}

// laggingSeeds are fewer where each takes long.
func laggingSeeds() uint64 {
	if alone || testing.Short() {
		return 5
	}
	return 15
}

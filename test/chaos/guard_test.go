package chaos

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// TestDeletesStopped: an administrator stops all deletions for a minute while claims are deleted, attempts fail and
// dispatchers are killed. No delete pod is made meanwhile, what waits says why, and all goes on afterwards.
func TestDeletesStopped(t *testing.T) {
	told := map[string]bool{}
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		plan := sim.Plan{Seed: seed, Claims: 4, Nodes: 2, Classes: []sim.Class{{Name: "class-0"}}, Length: 2 * time.Minute,
			Rates: map[string]float64{"no-volume": 0.85, "misfit": 0.2, "kill-dispatcher": 0.02, "lag": 0.2}}
		for i := range plan.Claims {
			plan.Actions = append(plan.Actions, sim.Action{At: time.Duration(1+i) * time.Second, Do: "claim-create", N: i})
		}
		plan.Actions = append(plan.Actions, sim.Action{At: 20 * time.Second, Do: "deletes-stop", For: time.Minute})
		for i := range plan.Claims {
			plan.Actions = append(plan.Actions, sim.Action{At: time.Duration(18+4*i) * time.Second, Do: "claim-delete", N: i})
		}
		if alone {
			plan = plan.Alone()
		}
		r := run(t, plan, sim.Options{})
		if len(r.Violations) > 0 {
			t.Fatalf("seed %d:\n%s\n%s\n%s", seed, plan, r.Trace, strings.Join(r.Violations, "\n"))
		}
		for _, object := range []string{"pvc-", "prov-"} {
			told[object] = told[object] || slices.ContainsFunc(r.Events, func(e string) bool {
				return strings.HasPrefix(e, object) && strings.Contains(e, "DeletionStopped: storage waits to be removed: ConfigMap") &&
					strings.HasSuffix(e, "stops all deletions: a test of the switch")
			})
		}
	}
	if !told["pvc-"] || !told["prov-"] {
		t.Errorf("what waited said why on volumes: %v, on pods: %v", told["pvc-"], told["prov-"])
	}
}

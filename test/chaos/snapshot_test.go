package chaos

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// TestSnapshotSeeds runs a few seeds in which users and administrators work with snapshots above all.
func TestSnapshotSeeds(t *testing.T) {
	drawn := map[string]int{}
	for seed := uint64(1); seed <= 10; seed++ {
		plan := sim.NewPlan(seed, "snapshots")
		if alone {
			plan = plan.Alone()
		}
		result := run(t, plan, sim.Options{})
		for kind, n := range result.Drawn {
			drawn[kind] += n
		}
		if len(result.Violations) > 0 {
			report(t, plan, result, 1)
		}
	}
	for _, kind := range []string{"snapshot-taken", "snapshot-restored", "snapshot-removed", "snapshotter-lag"} {
		if drawn[kind] == 0 {
			t.Errorf("nothing was %s in %s", kind, counted(drawn))
		}
	}
}

package chaos

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// TestAttachSeeds runs a few seeds in which users run workloads with volumes of flex-node above all.
func TestAttachSeeds(t *testing.T) {
	drawn := map[string]int{}
	for seed := uint64(1); seed <= 10; seed++ {
		plan := sim.NewPlan(seed, "attach")
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
	for _, kind := range []string{"volume-attached", "volume-detached", "connector-away", "attach-force"} {
		if drawn[kind] == 0 {
			t.Errorf("nothing was %s in %s", kind, counted(drawn))
		}
	}
}

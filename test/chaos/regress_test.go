package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// regressions are plans that found a bug once, each with the seed that found it, made smaller.
var regressions = []struct {
	name string
	plan sim.Plan
}{
	// A volume's update that a watch held back since before the end of the faults came after it, and was written about then.
	{"18505-lag-ends-with-the-faults", sim.Plan{Seed: 18505, Claims: 1, Nodes: 3, Classes: []sim.Class{{Name: "class-0"}}, Length: 111 * time.Second,
		Actions: []sim.Action{{At: 13 * time.Second, Do: "claim-create"}, {At: 105 * time.Second, Do: "watch-lag", N: 52, For: 126 * time.Second},
			{At: 108 * time.Second, Do: "volume-retain", N: 37, For: 2 * time.Second}}}},
}

func TestRegressions(t *testing.T) {
	for _, r := range regressions {
		t.Run(r.name, func(t *testing.T) {
			if result := run(t, r.plan, sim.Options{}); len(result.Violations) > 0 {
				t.Errorf("%s\n%s\n%s", r.plan, result.Trace, strings.Join(result.Violations, "\n"))
			}
		})
	}
}

package chaos

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// TestTurns: claims of a class that may have two pods at once keep coming faster than they are served. Nobody's pod is made
// after those of many who asked later.
func TestTurns(t *testing.T) {
	const claims, overtake = 24, 3
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		plan := sim.Plan{Seed: seed, Claims: claims, Nodes: 2, Classes: []sim.Class{{Name: "class-0", MaxConcurrent: 2}}, Length: 2 * time.Minute}
		for i := range claims {
			plan.Actions = append(plan.Actions, sim.Action{At: time.Duration(1+i) * time.Second, Do: "claim-create", N: i})
		}
		if alone {
			plan = plan.Alone()
		}
		r := run(t, plan, sim.Options{})
		trace := fmt.Sprint(r.Trace)
		asked, served := order(trace, `asks for a volume for claim-\d+ \((.+)\)`), order(trace, `create pods flex-provisioners/prov-(.+)-0 -> 201`)
		if len(r.Violations) > 0 || len(asked) != claims || len(served) != claims {
			t.Fatalf("seed %d: %d asked, %d served, violations: %q", seed, len(asked), len(served), r.Violations)
		}
		for uid, turn := range served {
			if turn > asked[uid]+overtake {
				t.Errorf("seed %d: claim %s asked as number %d and was served as number %d\n%s", seed, uid, asked[uid], turn, trace)
			}
		}
	}
}

// order numbers what the first group matches as it comes.
func order(trace, pattern string) map[string]int {
	turns := map[string]int{}
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(trace, -1) {
		if _, ok := turns[match[1]]; !ok {
			turns[match[1]] = len(turns) + 1
		}
	}
	return turns
}

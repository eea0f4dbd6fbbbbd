package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// TestReplay runs seeds twice, the second time in another order, and compares all that was written about them.
func TestReplay(t *testing.T) {
	if !replays {
		t.Skip("needs the overlay of test/chaos/replay: run test/chaos/run.sh")
	}
	first := map[uint64]string{}
	order := make([]uint64, 50)
	for i := range order {
		order[i] = uint64(i + 1)
	}
	for range 2 {
		for _, seed := range order {
			plan := sim.NewPlan(seed)
			r := run(t, plan, sim.Options{})
			text := fmt.Sprintf("%s%s%s\n%s", plan, r.Trace, counted(r.Drawn), strings.Join(r.Violations, "\n"))
			if before, again := first[seed]; again && before != text {
				t.Errorf("seed %d:\n%s", seed, difference(before, text))
			}
			first[seed] = text
		}
		slices.Reverse(order)
	}
}

// difference is where two texts part.
func difference(a, b string) string {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return fmt.Sprintf("line %d was\n%s\nand is\n%s", i+1, left[i], right[i])
		}
	}
	return fmt.Sprintf("%d lines, and then %d", len(left), len(right))
}

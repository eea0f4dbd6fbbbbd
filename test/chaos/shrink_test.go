package chaos

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// smaller leaves out of a plan whatever it also fails without, as long as it fails in the same way.
func smaller(t *testing.T, plan sim.Plan, result sim.Result) (sim.Plan, sim.Result) {
	t.Helper()
	kind := kindOf(result.Violations[0])
	try := func(p sim.Plan) bool {
		r := run(t, p, sim.Options{})
		for _, v := range r.Violations {
			if kindOf(v) == kind {
				plan, result = p, r
				return true
			}
		}
		return false
	}
	for again := true; again; {
		again = false
		for _, name := range slices.Sorted(maps.Keys(plan.Rates)) {
			p := plan
			p.Rates = maps.Clone(plan.Rates)
			delete(p.Rates, name)
			again = try(p) || again
		}
		for i := len(plan.Actions) - 1; i >= 0; i-- {
			p := plan
			p.Actions = slices.Delete(slices.Clone(plan.Actions), i, i+1)
			again = try(p) || again
		}
	}
	return plan, result
}

// kindOf is a violation without its names and numbers.
func kindOf(violation string) string {
	_, violation, _ = strings.Cut(violation, ": ")
	var words []string
	for _, word := range strings.Fields(violation) {
		if !strings.ContainsAny(word, "0123456789[]") {
			words = append(words, word)
		}
		if len(words) == 6 {
			break
		}
	}
	return strings.Join(words, " ")
}

func counted(drawn map[string]int) string {
	var out strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(drawn)) {
		fmt.Fprintf(&out, " %s %d", kind, drawn[kind])
	}
	return out.String()
}

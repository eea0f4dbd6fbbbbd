package chaos

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
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

// TestTurnsOfNamespaces: one namespace makes and deletes claims by the dozen, of a class that may have few pods at once. The
// claims of others wait for one turn of it at most, which every run checks, and all are told why they wait, once. In the order
// in which they asked, which is what a dispatcher does to which all seem to be of one namespace, they would wait for all.
func TestTurnsOfNamespaces(t *testing.T) {
	const claims, others, remade = 40, 2, "claim-39"
	unfair, told := 0, map[string]int{}
	for seed := uint64(1); seed <= laggingSeeds(); seed++ {
		plan := sim.Plan{Seed: seed, Claims: claims, Tenants: 1 + others, Nodes: 2, Classes: []sim.Class{{Name: "class-0", MaxConcurrent: 1 + int(seed%3)}}, Length: 4 * time.Minute}
		for i := range claims - others {
			plan.Actions = append(plan.Actions, sim.Action{At: time.Second, Do: "claim-create", N: i})
		}
		for i := claims - others; i < claims; i++ {
			plan.Actions = append(plan.Actions, sim.Action{At: time.Duration(5+i%others) * time.Second, Do: "claim-create", N: i})
		}
		for i := range claims / 2 {
			plan.Actions = append(plan.Actions, sim.Action{At: 10 * time.Second, Do: "claim-delete", N: i})
		}
		for at := 20 * time.Second; at < time.Minute; at += 10 * time.Second {
			plan.Actions = append(plan.Actions, sim.Action{At: at, Do: "claim-recreate", N: claims - 1})
		}
		r := run(t, plan, sim.Options{})
		var before []string
		if len(r.Violations) > 0 {
			t.Fatalf("seed %d:\n%s\n%s\n%s", seed, plan, r.Trace, strings.Join(r.Violations, "\n"))
		}
		for _, e := range r.Events {
			object, _, waits := strings.Cut(e, " ConcurrencyLimitReached: waiting for other provisioner pods of StorageClass class-0 to end: ")
			if !waits {
				continue
			}
			told[object[:4]]++
			if slices.Contains(before, object) {
				t.Errorf("seed %d: %s was told twice that it waits", seed, object)
			}
			if object != remade {
				before = append(before, object)
			}
		}
		r = run(t, plan, sim.Options{Wrap: oneNamespace(&plan)})
		if strings.Contains(strings.Join(r.Violations, "\n"), " is turn number ") {
			unfair++
		}
	}
	if told["clai"] == 0 || told["pvc-"] == 0 {
		t.Errorf("told of claims and volumes that wait: %v", told)
	}
	if unfair < int(laggingSeeds()) {
		t.Errorf("only %d of %d plans would find it if claims were served in the order in which they asked", unfair, laggingSeeds())
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

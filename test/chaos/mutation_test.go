package chaos

import (
	"net/http"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// mutations take one mechanism out each. The simulation has to find that within the number of seeds, or it proves nothing
// about that mechanism.
var mutations = []struct {
	name  string
	wrap  func(http.RoundTripper) http.RoundTripper
	found string // in a violation
	from  uint64
	seeds int
}{
	{"pods have no finalizer", noPodFinalizer, "is an orphan", 1, 100},
	{"volumes have no finalizer", noVolumeFinalizer, "is an orphan", 1, 100},
	{"the live claim is stale", staleClaim, "", 1, 50},
	{"the live volume is stale", staleVolume, "", 1, 50},
	{"the live list of pods is empty", noLivePods, "", 1, 50},
	{"volumes are not verified", noMisfits, "is not bound", 1, 100},
	{"no settled pod stays", noTombstone, " starts while ", 101, 400},
	{"a pod's name is no lock", noLock, " starts while ", 1, 100},
	{"claims do not follow their volumes", noFollowing, "asks for", 1, 100},
	{"forged records are not repaired", noRepair, "is left Released", 1, 100},
	{"volumes say more than was made", noTruth, "is said to have", 1, 100},
}

func TestMutations(t *testing.T) {
	if testing.Short() || alone {
		t.Skip("takes a second for every dozen seeds, and plans with two leaders")
	}
	for _, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			for seed := m.from; seed < m.from+uint64(m.seeds); seed++ {
				r := run(t, sim.NewPlan(seed), sim.Options{Wrap: m.wrap})
				if text := strings.Join(r.Violations, "\n"); len(r.Violations) > 0 && strings.Contains(text, m.found) {
					t.Logf("found by seed %d: %s", seed, r.Violations[0])
					return
				}
			}
			t.Errorf("%s, and none of %d seeds from %d found it", m.name, m.seeds, m.from)
		})
	}
}

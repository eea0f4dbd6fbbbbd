package chaos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	only  []string // themes
}{
	{"pods have no finalizer", noPodFinalizer, "is an orphan", 1, 100, nil},
	{"volumes have no finalizer", noVolumeFinalizer, "is an orphan", 1, 100, nil},
	{"the live claim is stale", staleClaim, "", 1, 50, nil},
	{"the live volume is stale", staleVolume, "", 2, 50, nil},
	{"the live list of pods is empty", noLivePods, "", 1, 50, nil},
	{"volumes are not verified", noMisfits, "is not bound", 1, 100, nil},
	{"no settled pod stays", noTombstone, " starts while ", 101, 400, nil},
	{"a pod's name is no lock", noLock, " starts while ", 1, 100, nil},
	{"claims do not follow their volumes", noFollowing, "asks for", 1, 100, nil},
	{"forged records are not repaired", noRepair, "is left Released", 1, 100, nil},
	{"volumes say more than was made", noTruth, "is said to have", 1, 100, nil},
	{"records of drained pods are lost", noRecords, "is an orphan", 1, 200, []string{"drains"}},
	{"all nodes seem to be gone", noNodes, "without its storage, and node", 201, 200, []string{"gone-nodes"}},
	{"nodes seem to be gone for longer", hastily, "and its class says", 1, 200, []string{"gone-nodes"}},
	{"pods of a volume mount what the class mounts today", todaysMount(), "is an orphan", 1, 500, []string{"elsewhere"}},
}

func TestMutations(t *testing.T) {
	if testing.Short() || alone {
		t.Skip("takes a second for every dozen seeds, and plans with two leaders")
	}
	for _, m := range mutations {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			for seed := m.from; seed < m.from+uint64(m.seeds); seed++ {
				r := run(t, sim.NewPlan(seed, m.only...), sim.Options{Wrap: m.wrap})
				if text := strings.Join(r.Violations, "\n"); len(r.Violations) > 0 && strings.Contains(text, m.found) {
					t.Logf("found by seed %d: %s", seed, r.Violations[0])
					return
				}
			}
			t.Errorf("%s, and none of %d seeds from %d found it", m.name, m.seeds, m.from)
		})
	}
}

// reverted are decisions that were wrong once. Each is put back into its file, by pairs of what is there and what replaces it.
var reverted = []struct {
	name, file, theme, found string
	texts                    []string
}{
	{"a pod that is left proves that a freed volume was never used", "../../dispatcher/obstacles/removal.go", "admins", "which a claim has used",
		[]string{
			"return s.Released() || unfit", "return stray(s) || s.Released() || unfit",
			"	case s.Released():\n		return releasedRemoval(s)", "	case stray(s):\n		return NeverUsed, podspec.ReasonNone, \"\"\n	case s.Released():\n		return releasedRemoval(s)",
			"// neverUsed reports", stray + "\n// neverUsed reports"}},
	{"a snapshot goes although another content has it", "../../dispatcher/obstacles/snapshot.go", "snapshots", "which a content has that is not deleted",
		[]string{"	case of.Twin != nil:", "	case false:"}},
	{"a snapshot is ready once its pod has ended", "../../dispatcher/reconcile/snapshot.go", "snapshots", "is ready, and the storage has snapshot",
		[]string{"	if tried && newest.Outcome.Phase == podspec.Succeeded {\n		// Whoever", "	if tried {\n		// Whoever"}},
	{"a pod attaches before the finalizer is there", attachment, "attach", "is gone, and node",
		[]string{"	case !s.Attachment.Kept():", "	case false:"}},
	{"the finalizer goes after a detach that failed", attachment, "attach", "is gone, and node",
		[]string{"detached := tried && newest.Outcome.Phase == podspec.Succeeded", "detached := tried"}},
	{"storage goes beside an attachment", "../../dispatcher/obstacles/removal.go", "attach", "removes the storage at",
		[]string{"if why := attachedTo(s); why != \"\" {", "if why := attachedTo(s); false {"}},
}

const attachment = "../../dispatcher/reconcile/attachment.go"

const stray = `func stray(s *observed.Claim) bool {
	ref := s.Volume.Spec.ClaimRef
	return len(s.Of(contract.Provision)) > 0 && string(s.Volume.Status.Phase) != "Bound" && !s.ClaimLives() && (ref == nil || string(ref.UID) != s.UID)
}
`

// TestRevertedDecisions builds the simulation with each, and searches in a process of its own.
func TestRevertedDecisions(t *testing.T) {
	if testing.Short() || alone {
		t.Skip("builds the dispatcher again")
	}
	for _, m := range reverted {
		t.Run(strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			overlay := overlayOf(t, m.file, m.texts)
			for from := 1; from <= 500; from += 20 {
				search := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, ".", "-run", "^TestSeeds$",
					"-from", fmt.Sprint(from), "-seeds", "20", "-only", m.theme, "-shrink=false", "-most", "0")
				out, err := search.CombinedOutput()
				if i := strings.Index(string(out), m.found); err != nil && i >= 0 {
					t.Logf("found by one of 20 seeds from %d", from)
					return
				}
				if strings.Contains(string(out), "build failed") {
					t.Fatalf("%s", out)
				}
			}
			t.Errorf("%s, and none of 500 seeds found it", m.name)
		})
	}
}

func overlayOf(t *testing.T, file string, texts []string) string {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	code := string(data)
	for i := 0; i < len(texts); i += 2 {
		if !strings.Contains(code, texts[i]) {
			t.Fatalf("%s has no %q", file, texts[i])
		}
		code = strings.Replace(code, texts[i], texts[i+1], 1)
	}
	changed, overlay := filepath.Join(t.TempDir(), "changed.go"), filepath.Join(t.TempDir(), "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{changed: code, overlay: string(list)} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/conformance/cluster"
)

// TestConformance: docs/conformance.md has every check as the code describes it. -update puts them there.
func TestConformance(t *testing.T) {
	wantChecks(t, "checks", conformance.Checks())
	wantChecks(t, "cluster checks", cluster.Checks())
}

func wantChecks(t *testing.T, which string, checks []conformance.Check) {
	t.Helper()
	name, begin, end := "docs/conformance.md", "<!-- "+which+" -->\n", "<!-- /"+which+" -->"
	text := read(t, name)
	before, rest, found := strings.Cut(text, begin)
	had, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no %q ... %q", name, begin, end)
	}
	var want strings.Builder
	want.WriteString("| Check | | What is done | The contract |\n|---|---|---|---|\n")
	for _, check := range checks {
		needed := "required"
		if !check.Required {
			needed = "advice"
		}
		want.WriteString("| `" + check.Name + "` | " + needed + " | " + check.Did + " | " + check.Rule + " |\n")
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if had != want.String() {
		t.Errorf("%s does not have the checks of the code; -update writes them:\n%s", name, want.String())
	}
}

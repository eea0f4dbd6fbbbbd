package docs

import (
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
	var want strings.Builder
	want.WriteString("| Check | | What is done | The contract |\n|---|---|---|---|\n")
	for _, check := range checks {
		needed := "required"
		if !check.Required {
			needed = "advice"
		}
		want.WriteString("| `" + check.Name + "` | " + needed + " | " + check.Did + " | " + check.Rule + " |\n")
	}
	embedded(t, "docs/conformance.md", which, want.String())
}

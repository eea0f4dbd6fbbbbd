package docs

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance"
)

// TestConformance: docs/conformance.md has every check as the code describes it. -update puts them there.
func TestConformance(t *testing.T) {
	var want strings.Builder
	want.WriteString("| Check | | What is done | The contract |\n|---|---|---|---|\n")
	for _, check := range conformance.Checks() {
		needed := "required"
		if !check.Required {
			needed = "advice"
		}
		want.WriteString("| `" + check.Name + "` | " + needed + " | " + check.Did + " | " + check.Rule + " |\n")
	}
	embedded(t, "docs/conformance.md", "checks", want.String())
}

package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

// TestRegressions runs plans that found a bug once, as -save wrote them: each file is named after the seed and the bug.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("testdata/regressions/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d plans: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var plan sim.Plan
			if err := json.Unmarshal(data, &plan); err != nil {
				t.Fatal(err)
			}
			if alone {
				plan = plan.Alone()
			}
			if result := run(t, plan, sim.Options{}); len(result.Violations) > 0 {
				t.Errorf("%s\n%s\n%s", plan, result.Trace, strings.Join(result.Violations, "\n"))
			}
		})
	}
}

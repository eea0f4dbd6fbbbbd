package docs

import "testing"

// What programs print is in the documents word for word. -update puts it there.

// TestHelp: docs/operations.md has the dispatcher's --help.
func TestHelp(t *testing.T) {
	embedded(t, "docs/operations.md", "help", "```text\n"+output(t, ".", "go", "run", "./cmd/flex-provisioner", "--help")+"```\n")
}

// TestPerformance: test/bench/README.md has the figures of figures.json, which make bench wrote.
func TestPerformance(t *testing.T) {
	embedded(t, "test/bench/README.md", "figures", output(t, ".", "go", "run", "./test/bench", "-table", "test/bench/figures.json"))
}

// TestUpstream: test/upstream/README.md has the tables of results.json, which make test-upstream wrote, and no test in there
// failed or was left out without a reason in test/upstream/cannot.yaml.
func TestUpstream(t *testing.T) {
	embedded(t, "test/upstream/README.md", "results", output(t, ".", "go", "run", "./test/upstream", "-table", "test/upstream/results.json"))
}

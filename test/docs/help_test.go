package docs

import "testing"

// TestHelp: docs/operations.md has the dispatcher's --help word for word. -update puts it there.
func TestHelp(t *testing.T) {
	embedded(t, "docs/operations.md", "help", "```text\n"+output(t, ".", "go", "run", "./cmd/flex-provisioner", "--help")+"```\n")
}

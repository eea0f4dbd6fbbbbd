package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHelp: docs/operations.md has the dispatcher's --help word for word. -update puts it there.
func TestHelp(t *testing.T) {
	const name, begin, end = "docs/operations.md", "<!-- help -->\n", "<!-- /help -->"
	text := read(t, name)
	before, rest, found := strings.Cut(text, begin)
	had, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no %q ... %q", name, begin, end)
	}
	want := "```text\n" + output(t, ".", "go", "run", "./cmd/flex-provisioner", "--help") + "```\n"
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if had != want {
		t.Errorf("%s does not have what --help prints; -update rewrites it:\n%s", name, want)
	}
}

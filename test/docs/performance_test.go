package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPerformance: docs/performance.md has the figures of docs/performance.json, which make bench wrote. -update puts them there.
func TestPerformance(t *testing.T) {
	const name, begin, end = "docs/performance.md", "<!-- figures -->\n", "<!-- /figures -->"
	text := read(t, name)
	before, rest, found := strings.Cut(text, begin)
	had, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no %q ... %q", name, begin, end)
	}
	want := output(t, ".", "go", "run", "./test/bench", "-table", "docs/performance.json")
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if had != want {
		t.Errorf("%s does not have the figures of docs/performance.json; -update writes them:\n%s", name, want)
	}
}

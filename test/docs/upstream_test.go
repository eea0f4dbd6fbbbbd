package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUpstream: docs/upstream.md has the tables of docs/upstream.json, which make test-upstream wrote, and no test in there failed or was
// left out without a reason in test/upstream/cannot.yaml. -update puts the tables there.
func TestUpstream(t *testing.T) {
	const name, begin, end = "docs/upstream.md", "<!-- results -->\n", "<!-- /results -->"
	text := read(t, name)
	before, rest, found := strings.Cut(text, begin)
	had, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no %q ... %q", name, begin, end)
	}
	want := output(t, ".", "go", "run", "./test/upstream", "-table", "docs/upstream.json")
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if had != want {
		t.Errorf("%s does not have the results of docs/upstream.json; -update writes them:\n%s", name, want)
	}
}

package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecture: docs/architecture.md names files that exist, has a row for each package of the dispatcher, and says what that
// package imports. It stays short enough to be read at one go.
func TestArchitecture(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if n := strings.Count(text, "\n"); n > 130 {
		t.Errorf("it has %d lines, more than 130", n)
	}
	files := regexp.MustCompile("`([a-z][a-z/-]+\\.go)`").FindAllStringSubmatch(text, -1)
	if len(files) < 20 {
		t.Errorf("it names %d files only", len(files))
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join("..", "..", f[1])); err != nil {
			t.Error(err)
		}
	}
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(dispatcher[a-z/]*)` \\| [^|]+ \\| ([^|]*) ?\\|$").FindAllStringSubmatch(text, -1) {
		rows[row[1]] = strings.TrimSpace(row[2])
	}
	for _, p := range list(t) {
		if !fits(p.name(), "dispatcher/...") || ofTests(p.name()) {
			continue
		}
		var imports []string
		for _, imported := range p.Imports {
			if name, ok := strings.CutPrefix(imported, module+"dispatcher/"); ok {
				imports = append(imports, name)
			}
		}
		slices.Sort(imports)
		if got, ok := rows[p.name()]; !ok || got != strings.Join(imports, ", ") {
			t.Errorf("package %s imports %s; the table says %q", p.name(), strings.Join(imports, ", "), got)
		}
		delete(rows, p.name())
	}
	for name := range rows {
		t.Errorf("the table has %s, which does not exist", name)
	}
}

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCrashPoints: there are 36, and the tests that are said to show them exist.
func TestCrashPoints(t *testing.T) {
	const name = "docs/crash-points.md"
	items := regexp.MustCompile(`(?m)^(\d+)\. `).Split(read(t, name), -1)[1:]
	if len(items) != 36 {
		t.Fatalf("%s has %d points, want 36", name, len(items))
	}
	numbers := regexp.MustCompile(`(?m)^(\d+)\. `).FindAllStringSubmatch(read(t, name), -1)
	tests, faults := testFunctions(t), literals(t, "test/chaos/sim")
	for i, item := range items {
		if got := numbers[i][1]; got != strconv.Itoa(i+1) {
			t.Errorf("%s: point %d has the number %s", name, i+1, got)
		}
		item, _, _ = strings.Cut(item, "\n#")
		_, shown, found := strings.Cut(strings.Join(strings.Fields(item), " "), "Shown by: ")
		if !found {
			t.Errorf("%s: point %d does not say what it is shown by", name, i+1)
		}
		names := spans(shown)
		if len(names) == 0 && !strings.HasPrefix(shown, "not shown yet") {
			t.Errorf("%s: point %d names no test, and does not say %q", name, i+1, "not shown yet")
		}
		for _, test := range names {
			if why := missing(t, tests, test); why != "" {
				t.Errorf("%s: point %d names %s: %s", name, i+1, test, why)
			}
		}
		for _, fault := range drawn(shown) {
			if !slices.Contains(faults, strconv.Quote(fault)) {
				t.Errorf("%s: point %d says that TestSeeds draws %s, but test/chaos/sim does not know it", name, i+1, fault)
			}
		}
	}
}

// drawn are the faults in brackets after TestSeeds.
func drawn(shown string) []string {
	match := regexp.MustCompile("`TestSeeds` \\(([^)]*)\\)").FindStringSubmatch(shown)
	if match == nil {
		return nil
	}
	return strings.Split(match[1], ", ")
}

// literals are the strings in the Go files of a folder.
func literals(t *testing.T, dir string) []string {
	t.Helper()
	_, files := sources(t, dir)
	var found []string
	for _, file := range files {
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				found = append(found, literal.Value)
			}
			return true
		})
	}
	return found
}

// testFunctions are the folders in which each test function of the project is, whatever its build tags.
func testFunctions(t *testing.T) map[string][]string {
	t.Helper()
	dirs := map[string][]string{}
	for _, name := range walk(t, func(name string) bool { return strings.HasSuffix(name, "_test.go") }) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if f, ok := declaration.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				dirs[f.Name.Name] = append(dirs[f.Name.Name], filepath.Join(root, filepath.Dir(name)))
			}
		}
	}
	return dirs
}

// missing says why a test cannot be run by its name. A row of a table is there as a literal in the folder's tests, or as
// a file or folder of its testdata.
func missing(t *testing.T, tests map[string][]string, name string) string {
	t.Helper()
	function, row, isRow := strings.Cut(name, "/")
	dirs, ok := tests[function]
	if !ok {
		return "there is no such test"
	}
	if !isRow {
		return ""
	}
	for _, dir := range dirs {
		if hasRow(t, dir, row) {
			return ""
		}
	}
	return "the test has no such row"
}

func hasRow(t *testing.T, dir, row string) bool {
	t.Helper()
	found := false
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if strings.Contains(name, "testdata") {
			found = found || strings.TrimSuffix(base, filepath.Ext(base)) == row
			return nil
		}
		if strings.HasSuffix(base, "_test.go") {
			text, err := os.ReadFile(name)
			found = found || strings.Contains(string(text), strconv.Quote(row))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

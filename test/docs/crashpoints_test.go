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

// TestCrashPoints: there are 63, in one table, and the tests that are said to show them exist where they are said to be.
func TestCrashPoints(t *testing.T) {
	const name = "docs/crash-points.md"
	points, parts, found := strings.Cut(read(t, name), "\n## ")
	rows := table(t, points)
	if len(rows) != 63 || !found {
		t.Fatalf("%s has %d points, want 63, and a table of parts after them", name, len(rows))
	}
	tests, faults := testFunctions(t), literals(t, "test/chaos/sim")
	for i, row := range rows {
		if len(row) != 5 || row[0] != strconv.Itoa(i+1) {
			t.Fatalf("%s: row %d is %q", name, i+1, row)
		}
		simulated, real := row[3], row[4]
		if simulated == "no" && real == "no" {
			t.Errorf("%s: point %d is shown by no test", name, i+1)
		}
		shows(t, name+", point "+row[0]+", simulated", tests, simulated, false)
		shows(t, name+", point "+row[0]+", real", tests, real, true)
		for _, fault := range drawn(simulated) {
			if !slices.Contains(faults, strconv.Quote(fault)) {
				t.Errorf("%s: point %d says that TestSeeds draws %s, but test/chaos/sim does not know it", name, i+1, fault)
			}
		}
	}
	for _, row := range table(t, parts) {
		shows(t, name+", "+row[0], tests, row[2], true)
	}
}

// shows checks the tests that a cell names: a real one lies in test/e2e, another one does not.
func shows(t *testing.T, where string, tests map[string][]string, cell string, real bool) {
	t.Helper()
	names := spans(cell)
	if (len(names) == 0) != (cell == "no") {
		t.Errorf("%s: the cell %q names no test, and is not %q", where, cell, "no")
	}
	for _, test := range names {
		function, _, _ := strings.Cut(test, "/")
		inE2E := func(dir string) bool { return strings.HasSuffix(dir, "test/e2e") }
		dirs := slices.DeleteFunc(slices.Clone(tests[function]), func(dir string) bool { return inE2E(dir) != real })
		if why := missing(t, map[string][]string{function: dirs}, test); why != "" || len(dirs) == 0 {
			t.Errorf("%s names %s: there is no such test %s", where, test, why)
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

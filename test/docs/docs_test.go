package docs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the code says into the documents, where that can be")

// root is the top of the repository, from here.
const root = "../.."

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// embedded fails unless a document has the text between the comments of that name. With -update it puts it there.
func embedded(t *testing.T, name, mark, want string) {
	t.Helper()
	begin, end := "<!-- "+mark+" -->\n", "<!-- /"+mark+" -->"
	before, rest, found := strings.Cut(read(t, name), begin)
	had, after, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Fatalf("%s has no %q ... %q", name, begin, end)
	case *update:
		if err := os.WriteFile(filepath.Join(root, name), []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case had != want:
		t.Errorf("%s does not have what the code says; -update writes it:\n%s", name, want)
	}
}

// section is the text below a heading, up to the next heading of its level or above.
func section(t *testing.T, name, heading string) string {
	t.Helper()
	_, below, found := strings.Cut("\n"+read(t, name), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no heading %q", name, heading)
	}
	level := len(heading) - len(strings.TrimLeft(heading, "#"))
	if end := regexp.MustCompile(`\n#{1,` + strconv.Itoa(level) + `} `).FindStringIndex("\n" + below); end != nil {
		below = below[:end[0]]
	}
	return below
}

// table is the cells of the first table in a text, without its heading.
func table(t *testing.T, text string) [][]string {
	t.Helper()
	var rows [][]string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if rows != nil {
				break
			}
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	if len(rows) < 3 {
		t.Fatalf("no table in:\n%s", text)
	}
	return rows[2:]
}

var (
	span  = regexp.MustCompile("`([^`]+)`")
	block = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```")
)

// spans are the pieces of code in a text, but for whole blocks. One that is broken over two lines is one.
func spans(text string) []string {
	var found []string
	text = block.ReplaceAllString(text, "")
	for _, match := range span.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		found = append(found, match[1])
	}
	return found
}

// column is the pieces of code in the n-th column of a table.
func column(rows [][]string, n int) []string {
	var found []string
	for _, row := range rows {
		found = append(found, spans(row[n])...)
	}
	return found
}

// same reports what is in one list only, or twice in a document.
func same(t *testing.T, name string, documented, code []string) {
	t.Helper()
	if len(code) == 0 {
		t.Errorf("the code has none of what %s lists: this test looks in the wrong place", name)
	}
	for i, word := range documented {
		if !slices.Contains(code, word) {
			t.Errorf("%s has %s, the code does not", name, word)
		}
		if slices.Contains(documented[:i], word) {
			t.Errorf("%s has %s twice", name, word)
		}
	}
	for _, word := range code {
		if !slices.Contains(documented, word) {
			t.Errorf("%s lacks %s", name, word)
		}
	}
}

// sources parses the Go files of a folder without its tests.
func sources(t *testing.T, dir string) (*token.FileSet, []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return set, files
}

// contractConstants are the exported constants of package contract with their values.
func contractConstants(t *testing.T) map[string]string {
	t.Helper()
	set, files := sources(t, "sdk/contract")
	ignore := types.Config{Error: func(error) {}} // imports are not resolved, and constants need none
	pkg, _ := ignore.Check("contract", set, files, nil)
	values := map[string]string{}
	for _, name := range pkg.Scope().Names() {
		constant, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !constant.Exported() {
			continue
		}
		value := constant.Val().ExactString()
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		values[name] = value
	}
	return values
}

// markdown is every document of the project, by its path from the top.
func markdown(t *testing.T) []string {
	t.Helper()
	return walk(t, func(name string) bool { return strings.HasSuffix(name, ".md") })
}

// walk lists the project's files that want is true for.
func walk(t *testing.T, want func(name string) bool) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (name == "bin" || len(name) > 1 && strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case !entry.IsDir() && want(name):
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// output runs a command in a folder.
func output(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = filepath.Join(root, dir)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, exit.Stderr)
		}
		t.Fatal(err)
	}
	return string(out)
}

package docs

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

func allReasons(t *testing.T) []string {
	t.Helper()
	return append(reasons(t, "podspec"), reasons(t, "dispatcher/events")...)
}

// reasons are the values of a package's constants of type podspec.Reason.
func reasons(t *testing.T, dir string) []string {
	t.Helper()
	_, files := sources(t, dir)
	var found []string
	for _, file := range files {
		for _, declaration := range file.Decls {
			constants, ok := declaration.(*ast.GenDecl)
			if !ok || constants.Tok != token.CONST {
				continue
			}
			for _, spec := range constants.Specs {
				found = append(found, reasonOf(t, spec.(*ast.ValueSpec))...)
			}
		}
	}
	return found
}

func reasonOf(t *testing.T, spec *ast.ValueSpec) []string {
	t.Helper()
	name := ""
	switch typed := spec.Type.(type) {
	case *ast.Ident:
		name = typed.Name
	case *ast.SelectorExpr:
		name = typed.Sel.Name
	}
	if name != "Reason" {
		return nil
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok {
		t.Fatalf("constant %s is no literal: this test cannot read it", spec.Names[0].Name)
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	if value == "" {
		return nil
	}
	return []string{value}
}

var eventItem = regexp.MustCompile("(?m)^- `([A-Za-z]+)` \\((Normal|Warning)[;,] ")

func TestEvents(t *testing.T) {
	var documented []string
	for _, match := range eventItem.FindAllStringSubmatch(read(t, "docs/events.md"), -1) {
		documented = append(documented, match[1])
	}
	same(t, "docs/events.md", documented, allReasons(t))
}

// TestTroubleshooting: every reason that a pod can give a claim is in the README, and none that does not exist.
func TestTroubleshooting(t *testing.T) {
	all := allReasons(t)
	var documented []string
	for _, name := range column(table(t, section(t, "README.md", "## Troubleshooting")), 0) {
		documented = append(documented, name)
		if !slices.Contains(all, name) {
			t.Errorf("README.md has the event %s, the code does not", name)
		}
	}
	for _, name := range reasons(t, "podspec") {
		if !slices.Contains(documented, name) {
			t.Errorf("the README's troubleshooting lacks %s", name)
		}
	}
}

// TestEventsInDocuments: what looks like one of our reasons anywhere in the documents is one.
func TestEventsInDocuments(t *testing.T) {
	all := allReasons(t)
	for _, name := range markdown(t) {
		for _, word := range spans(read(t, name)) {
			if regexp.MustCompile(`^Provision(er|ing)[A-Z][A-Za-z]+$`).MatchString(word) && !slices.Contains(all, word) {
				t.Errorf("%s names the event %s, which the code does not have: %s", name, word, strings.Join(all, ", "))
			}
		}
	}
}

// TestEventsAsMeant: docs/events.md explains each reason as kubectl flex does. -update writes what the code says.
func TestEventsAsMeant(t *testing.T) {
	const name = "docs/events.md"
	had := read(t, name)
	want := regexp.MustCompile("(?m)^- `[A-Za-z]+` \\(.*\n(?:  .*\n)*").ReplaceAllStringFunc(had, func(item string) string {
		reason := strings.Split(item, "`")[1]
		m, ok := events.MeaningOf(podspec.Reason(reason))
		if !ok {
			t.Errorf("%s has %s, which dispatcher/events/meaning.go does not explain", name, reason)
			return item
		}
		return itemOf(reason, m)
	})
	for _, reason := range allReasons(t) {
		if m, ok := events.MeaningOf(podspec.Reason(reason)); !ok || m.Means == "" || m.Do == "" || m.On == "" {
			t.Errorf("dispatcher/events/meaning.go does not explain %s: %+v", reason, m)
		}
	}
	if had == want {
		return
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs from dispatcher/events/meaning.go; -update writes it from there", name)
}

// itemOf is an item of the list of events, in lines of at most 120 columns.
func itemOf(reason string, m events.Meaning) string {
	kind, sep := "Normal", ","
	if m.Warning {
		kind = "Warning"
	}
	if strings.ContainsAny(m.On, ", ") {
		sep = ";"
	}
	var lines []string
	line := "-"
	for _, word := range strings.Fields("`" + reason + "` (" + kind + sep + " " + m.On + "). " + m.Means + " Do: " + m.Do) {
		if len(line)+1+len(word) > 120 {
			lines, line = append(lines, line), " "
		}
		line += " " + word
	}
	return strings.Join(append(lines, line), "\n") + "\n"
}

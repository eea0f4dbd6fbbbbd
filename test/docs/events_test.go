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

var eventItem = regexp.MustCompile("(?m)^- `([A-Za-z]+)` \\(.*\n(?:  .*\n)*")

// TestEvents: docs/events.md explains each reason as kubectl flex does. -update writes the items from the code. It puts a
// new one before the alerts, from where it has to be moved to its section.
func TestEvents(t *testing.T) {
	const name, next = "docs/events.md", "\n## Alerts\n"
	had, missing := read(t, name), allReasons(t)

	list, alerts, found := strings.Cut(had, next)
	if !found {
		t.Fatalf("%s has no heading %q after its events", name, next)
	}
	list = eventItem.ReplaceAllStringFunc(list, func(item string) string {
		reason := eventItem.FindStringSubmatch(item)[1]
		i := slices.Index(missing, reason)
		if i < 0 {
			return "" // the code does not have it, or the page has it twice
		}
		missing = slices.Delete(missing, i, i+1)
		return itemOf(t, reason)
	})
	for _, reason := range missing {
		list += itemOf(t, reason)
	}

	want := list + next + alerts
	if had == want {
		return
	}
	if *update {
		if err := os.WriteFile(filepath.Join(root, name), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("%s differs from dispatcher/events/meaning.go, or lacks %v; -update writes it from there", name, missing)
}

// itemOf is an item of the list of events, in lines of at most 120 columns.
func itemOf(t *testing.T, reason string) string {
	t.Helper()
	m, ok := events.MeaningOf(podspec.Reason(reason))
	if !ok || m.Means == "" || m.Do == "" || m.On == "" {
		t.Errorf("dispatcher/events/meaning.go does not explain %s: %+v", reason, m)
	}
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

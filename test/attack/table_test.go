package attack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// least is how many hostile cases there have to be.
const least = 258

// TestTables holds the tables to their form, and counts them.
func TestTables(t *testing.T) {
	names, count := map[string]bool{}, 0
	for _, view := range views {
		data := read(t, view)
		if data.View == "" {
			t.Errorf("%s: says nothing of whose view it is", view)
		}
		hostile := 0
		for _, a := range data.Cases {
			if fault := a.fault(data); fault != "" {
				t.Errorf("%s: %q: %s", view, a.Name, fault)
			}
			if names[a.Name] {
				t.Errorf("%s: %q: the name is there twice", view, a.Name)
			}
			names[a.Name] = true
			if a.hostile() {
				hostile++
			}
		}
		t.Logf("%s: %d hostile cases of %d", view, hostile, len(data.Cases))
		count += hostile
	}
	if count < least {
		t.Errorf("%d hostile cases, want at least %d", count, least)
	}
}

// fault is what is wrong with a case.
func (a attempt) fault(data table) string {
	outcomes := 0
	for _, outcome := range []string{a.RefusedBy, a.Accepted, a.Passes} {
		if outcome != "" {
			outcomes++
		}
	}
	kinds := 0
	for _, is := range []bool{a.Verb != "", a.Story != "", a.Verb == "" && a.Story == "" && a.Base != ""} {
		if is {
			kinds++
		}
	}
	switch {
	case a.Name == "" || a.hostile() && a.Attacks == "":
		return "it has no name, or does not say what it attacks"
	case outcomes != 1:
		return "it needs one of refused-by, accepted and passes"
	case kinds != 1:
		return "it needs one of a request, a story and a connection"
	case a.Verb != "" && (a.As == "" || a.Path == ""):
		return "a request needs as and path"
	case a.Base != "" && data.Bases[a.Base] == nil:
		return "there is no base " + a.Base
	case a.Before != "" && a.Before != "accepted":
		return "before is accepted, or nothing"
	case strings.ContainsAny(a.Name+a.Accepted, "|\n"):
		return "name and reason are cells of a table"
	}
	return ""
}

// TestAccepted compares what is accepted on purpose with docs/security.md.
func TestAccepted(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Accepted on purpose\n")
	if !found {
		t.Fatal("docs/security.md has no section \"Accepted on purpose\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| What") {
			documented = append(documented, line)
		}
	}
	var tables []table
	for _, view := range views {
		tables = append(tables, read(t, view))
	}
	slices.Sort(documented)
	if want := accepted(tables); !slices.Equal(documented, want) {
		t.Errorf("docs/security.md, section \"Accepted on purpose\", must have these rows:\n%s\nit has:\n%s",
			strings.Join(want, "\n"), strings.Join(documented, "\n"))
	}
}

func read(t *testing.T, view string) table {
	t.Helper()
	data, err := readTable(view)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

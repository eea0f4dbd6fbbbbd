package configmaps

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/golden"
)

const reference = "../docs/config-reference.md"

// TestReference compares the two tables of the reference with the code, row by row and in both directions.
func TestReference(t *testing.T) {
	keys := [][]string{{"Key", "Meaning", "Form", "Without it"}}
	for _, k := range reserved {
		absent := k.absent
		if k.defaultValue != "" {
			absent = "`" + k.defaultValue + "`"
		}

		if k.required {
			absent = "**required**"
		}

		keys = append(keys, []string{"`" + k.name + "`", k.meaning, k.form, absent})
	}

	names := [][]string{{"Name", "Reason"}}
	for _, r := range refused {
		names = append(names, []string{"`" + r.pattern + "`", r.reason})
	}

	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}

	doc := compareTable(t, string(text), "## Reserved keys", keys)
	doc = compareTable(t, doc, "## Refused environment names", names)
	if *golden.Update {
		if err := os.WriteFile(reference, []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// compareTable compares the first table below a heading with rows, or with -update returns the document with rows in
// its place.
func compareTable(t *testing.T, doc, heading string, rows [][]string) string {
	t.Helper()
	_, below, found := strings.Cut(doc, "\n"+heading+"\n")
	start := strings.Index(below, "\n|")
	if !found || start < 0 {
		t.Fatalf("%s has no table below %q", reference, heading)
	}

	table, _, _ := strings.Cut(below[start+1:], "\n\n")
	var want []string
	for i, row := range rows {
		want = append(want, "| "+strings.Join(row, " | ")+" |")
		if i == 0 {
			want = append(want, strings.Repeat("|---", len(row))+"|")
		}
	}

	if *golden.Update {
		return strings.Replace(doc, table, strings.Join(want, "\n"), 1)
	}

	got := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	reportMissing(t, "in the code but not in "+reference, want, got)
	reportMissing(t, "in "+reference+" but not in the code", got, want)
	if len(got) != len(want) {
		t.Errorf("%q has %d lines, the code makes %d", heading, len(got), len(want))
	}

	return doc
}

func reportMissing(t *testing.T, where string, rows, from []string) {
	t.Helper()
	there := map[string]bool{}
	for _, row := range from {
		there[row] = true
	}

	for _, row := range rows {
		if !there[row] {
			t.Errorf("%s (-update rewrites it): %s", where, row)
		}
	}
}

// TestReferenceNumbers keeps the numbers of the prose right.
func TestReferenceNumbers(t *testing.T) {
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}

	for _, phrase := range []string{
		fmt.Sprintf("%d KiB in all", maxProperties>>10), fmt.Sprintf("%d KiB each", maxScript>>10), fmt.Sprintf("at most %d items", maxItems), fmt.Sprintf("%d KiB for any other reserved key", maxValue>>10),
	} {
		if !strings.Contains(string(text), phrase) {
			t.Errorf("%s does not say %q", reference, phrase)
		}
	}
}

// TestPolicyKnowsReservedKeys: the admission policy that refuses empty values at once names each reserved key that may be
// absent. -update writes the list.
func TestPolicyKnowsReservedKeys(t *testing.T) {
	const policy, begin = "../deploy/policies/provisioner-namespace.yaml", "        ['storage-class'"
	text, err := os.ReadFile(policy)
	if err != nil {
		t.Fatal(err)
	}

	before, rest, found := strings.Cut(string(text), begin)
	had, after, closed := strings.Cut(rest, "]")
	if !found || !closed {
		t.Fatalf("%s has no list that begins with %s", policy, begin)
	}

	want := begin
	for _, key := range reserved {
		if key.required || key.name == keyStorageClass {
			continue
		}

		name := ", '" + key.name + "'"
		if line := want[strings.LastIndex(want, "\n")+1:]; len(line)+len(name) > 120 {
			name = ",\n            '" + key.name + "'"
		}

		want += name
	}

	switch {
	case begin+had == want:
	case *golden.Update:
		if err := os.WriteFile(policy, []byte(before+want+"]"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s (-update rewrites it) has\n%s\nwant\n%s", policy, begin+had, want)
	}
}

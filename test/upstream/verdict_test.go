package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const exceptionsText = `
- tests: snapshottable
  reason: there are no snapshots
- tests: ^b
  classes: [disks]
  reason: disks have no b
`

func exceptions(t *testing.T) []Exception {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cannot.yaml")
	if err := os.WriteFile(file, []byte(exceptionsText), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := ReadExceptions(file)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVerdict(t *testing.T) {
	for name, row := range map[string]struct {
		class, test string
		state       State
		want        string
	}{
		"passed":                     {"disks", "a", Passed, ""},
		"failed":                     {"disks", "a", Failed, "disks: failed: a"},
		"skipped":                    {"disks", "a", Skipped, "disks: skipped: a"},
		"left out":                   {"disks", "a", NotDefined, "disks: not defined: a"},
		"forgotten":                  {"disks", "a", NotRun, "disks: not run: a"},
		"cannot, and failed":         {"disks", "x snapshottable", Failed, ""},
		"cannot, and not defined":    {"disks", "x snapshottable", NotDefined, ""},
		"cannot, and passed":         {"disks", "b", Passed, "disks: passed, but cannot.yaml says that it cannot (disks have no b): b"},
		"another class cannot":       {"files", "b", Failed, "files: failed: b"},
		"another class's that fails": {"disks", "b", Failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(verdict(row.class, map[string]State{row.test: row.state}, exceptions(t)), "\n")
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

func TestUnused(t *testing.T) {
	for class, want := range map[string][]string{
		"files": nil, // those of disks are not known
		"disks": {`cannot.yaml: no test matches "^b": take it out`},
	} {
		r := Results{Classes: []Class{{Name: class, Tests: map[string]State{"a": Passed, "snapshottable": NotDefined}}}}
		if got := unused(r, exceptions(t)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", class, got, want)
		}
	}
}

// TestTake: a run with a focus leaves the results of other tests, a whole one does not.
func TestTake(t *testing.T) {
	before := map[string]State{"a": Passed, "b": Failed, "gone": Passed, "c": NotDefined, "now": NotDefined}
	all, defined, ran := []string{"a", "b", "c", "now"}, []string{"a", "b", "now"}, map[string]State{"b": Passed}
	for whole, want := range map[bool]map[string]State{
		false: {"a": Passed, "b": Passed, "c": NotDefined, "now": NotRun},
		true:  {"a": NotRun, "b": Passed, "c": NotDefined, "now": NotRun},
	} {
		r := Results{Classes: []Class{{Name: "disks", Tests: before}}}
		r.take("disks", all, defined, ran, whole)
		if got := r.of("disks").Tests; !reflect.DeepEqual(got, want) {
			t.Errorf("whole %v: got %v, want %v", whole, got, want)
		}
	}
}

func TestStatesOf(t *testing.T) {
	it := func(name, state, message string) spec {
		s := spec{ContainerHierarchyTexts: []string{"External Storage [Driver: disks]", "[Testpattern: x]"}, LeafNodeText: name, LeafNodeType: "It", State: state}
		s.Failure.Message = message
		return s
	}
	specs := []spec{
		it("passes", "passed", ""),
		it("fails", "failed", "no"),
		it("panics", "panicked", "no"),
		it("takes too long", "timedout", "no"),
		it("is interrupted", "interrupted", "no"),
		it("cannot", "skipped", "the driver does not"),
		it("is not in focus", "skipped", ""),
		{ContainerHierarchyTexts: []string{"other"}, LeafNodeText: "test", LeafNodeType: "It", State: "failed"},
		{LeafNodeType: "SynchronizedBeforeSuite", State: "passed"},
	}
	want := map[string]State{}
	for name, state := range map[string]State{"passes": Passed, "fails": Failed, "panics": Failed, "takes too long": Failed, "is interrupted": Failed, "cannot": Skipped} {
		want["[Testpattern: x] "+name] = state
	}
	got, err := statesOf("disks", specs)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	before := spec{LeafNodeType: "SynchronizedBeforeSuite", State: "failed"}
	before.Failure.Message = "no node is ready"
	if _, err := statesOf("disks", append(specs, before)); err == nil || err.Error() != "SynchronizedBeforeSuite failed: no node is ready" {
		t.Errorf("of a suite that did not begin: %v", err)
	}
}

func TestPartOf(t *testing.T) {
	for name, want := range map[string]string{
		"[Testpattern: Dynamic PV (default fs)] subPath should work":                                    "subPath",
		"[Testpattern: Dynamic PV (xfs)] [Slow] volumes should store data":                              "volumes",
		"[Testpattern: Dynamic PV (default fs)] [Feature:A] [Feature:B] volume-expand should be larger": "volume-expand",
	} {
		if got := partOf(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

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
  says: no snapshots
  reason: there are no snapshots
- tests: ^b
  says: ^no b$
  classes: [disks]
  reason: disks have no b
- tests: shared
  says: one node
  with: [exec]
  without: [RWX]
  reason: nodes cannot share it
`

func exceptions(t *testing.T) []Exception {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cannot.yaml")
	if err := os.WriteFile(file, []byte(exceptionsText), 0o600); err != nil {
		t.Fatal(err)
	}
	all, err := ReadExceptions(file, []Driver{
		{name: "disks", can: map[string]bool{"exec": true}},
		{name: "files", can: map[string]bool{"exec": true, "RWX": true}},
		{name: "tapes"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestVerdict(t *testing.T) {
	for name, row := range map[string]struct {
		class, test string
		state       State
		said        string
		want        string
	}{
		"passed":                       {"disks", "a", Passed, "", ""},
		"failed":                       {"disks", "a", Failed, "no", "disks: failed: a: no"},
		"skipped":                      {"disks", "a", Skipped, "never", "disks: skipped: a: never"},
		"left out":                     {"disks", "a", NotDefined, "", "disks: not defined: a: "},
		"forgotten":                    {"disks", "a", NotRun, "", "disks: not run: a: "},
		"cannot, and failed":           {"disks", "x snapshottable", Failed, "there are no snapshots", ""},
		"cannot, and was not heard":    {"disks", "x snapshottable", Failed, "", ""},
		"cannot, and not defined":      {"disks", "x snapshottable", NotDefined, "", ""},
		"cannot, and tried":            {"disks", "x snapshottable", NotDefined, "no snapshots", ""},
		"cannot, and tried and passed": {"disks", "x snapshottable", NotDefined, "passed", "disks: not defined, but not as cannot.yaml says (no snapshots): x snapshottable: passed"},
		"cannot, and passed":           {"disks", "b", Passed, "", "disks: passed, but cannot.yaml says that it cannot (disks have no b): b"},
		"cannot, for another reason":   {"disks", "b", Skipped, "no node", "disks: skipped, but not as cannot.yaml says (^no b$): b: no node"},
		"another class cannot":         {"files", "b", Failed, "no b", "files: failed: b: no b"},
		"cannot, by its capabilities":  {"disks", "shared", Skipped, "one node", ""},
		"can, by its capabilities":     {"files", "shared", Skipped, "one node", "files: skipped: shared: one node"},
		"lacks what it is about":       {"tapes", "shared", Skipped, "one node", "tapes: skipped: shared: one node"},
		"another class's that fails":   {"disks", "b", Failed, "no b", ""},
	} {
		t.Run(name, func(t *testing.T) {
			ran := outcome{states: map[string]State{row.test: row.state}, said: map[string]string{row.test: row.said}}
			got := strings.Join(verdict(row.class, ran, exceptions(t)), "\n")
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// TestUnseen: what the suite said of one test of an exception is enough, for each class.
func TestUnseen(t *testing.T) {
	tests := map[string]State{"x snapshottable": NotDefined, "y snapshottable": Skipped, "b": NotRun}
	r := Results{Classes: []Class{
		{Name: "disks", Tests: tests, Said: map[string]string{"y snapshottable": "no snapshots"}},
		{Name: "files", Tests: tests},
	}}
	all := exceptions(t)
	if got, want := all[0].unseen(r, all), []string{"files"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := all[1].unseen(r, all); got != nil {
		t.Errorf("of tests that were not run: %q", got)
	}
}

func TestUnused(t *testing.T) {
	for class, want := range map[string][]string{
		"files": nil, // those of disks are not known
		"disks": {`cannot.yaml: no test matches "^b": take it out`, `cannot.yaml: no test matches "shared": take it out`},
	} {
		r := Results{Classes: []Class{{Name: class, Tests: map[string]State{"a": Passed, "snapshottable": NotDefined}}}}
		if got := unused(r, exceptions(t)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, want %q", class, got, want)
		}
	}
}

// TestTake: a run with a focus leaves the results of other tests, a whole one does not.
func TestTake(t *testing.T) {
	before := Class{
		Name:  "disks",
		Tests: map[string]State{"a": Failed, "b": Failed, "gone": Failed, "c": NotDefined, "now": NotDefined},
		Said:  map[string]string{"a": "of a", "b": "of b", "gone": "of gone", "c": "of c"},
	}
	all, defined := []string{"a", "b", "c", "now"}, []string{"a", "b", "now"}
	ran := outcome{states: map[string]State{"a": NotRun, "b": Skipped}, said: map[string]string{"b": "never"}}
	for whole, want := range map[bool]Class{
		false: {
			Name:  "disks",
			Tests: map[string]State{"a": Failed, "b": Skipped, "c": NotDefined, "now": NotRun},
			Said:  map[string]string{"a": "of a", "b": "never", "c": "of c"},
		},
		true: {
			Name:  "disks",
			Tests: map[string]State{"a": NotRun, "b": Skipped, "c": NotDefined, "now": NotRun},
			Said:  map[string]string{"b": "never", "c": "of c"},
		},
	} {
		r := Results{Classes: []Class{before}}
		r.take("disks", all, defined, ran, whole)
		if got := *r.class("disks"); !reflect.DeepEqual(got, want) {
			t.Errorf("whole %v: got %v, want %v", whole, got, want)
		}
	}
}

// TestSay: a run as if the class could do everything changes no result, and says nothing of tests that passed without it.
func TestSay(t *testing.T) {
	tests := map[string]State{"a": Passed, "b": NotDefined, "c": NotDefined, "d": Skipped}
	c := Class{Tests: tests, Said: map[string]string{"d": "of d"}}
	known := c.say(outcome{
		states: map[string]State{"a": Failed, "b": Failed, "c": Passed},
		said:   map[string]string{"a": "of a", "b": "of b"},
	})
	want := Class{Tests: tests, Said: map[string]string{"b": "of b", "c": "passed", "d": "of d"}}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got %v, want %v", c, want)
	}

	wantKnown := outcome{
		states: map[string]State{"a": Passed, "b": NotDefined, "c": NotDefined},
		said:   map[string]string{"a": "", "b": "of b", "c": "passed"},
	}
	if !reflect.DeepEqual(known, wantKnown) {
		t.Errorf("got %v, want %v", known, wantKnown)
	}
}

func TestOutcomeOf(t *testing.T) {
	it := func(name, state, message string) spec {
		s := spec{ContainerHierarchyTexts: []string{"External Storage [Driver: disks]", "[Testpattern: x]", ""}, LeafNodeText: name, LeafNodeType: "It", State: state}
		s.Failure.Message = message
		return s
	}
	specs := []spec{
		it("passes", "passed", ""),
		it("fails", "failed", "no"),
		it("panics", "panicked", "no"),
		it("takes too long", "timedout", "no"),
		it("is interrupted", "interrupted", "Interrupted by User"),
		it("is cut off", "timedout", "A suite timeout occurred"),
		it("cannot", "skipped", "the driver does not"),
		it("is not in focus", "skipped", ""),
		{ContainerHierarchyTexts: []string{"other"}, LeafNodeText: "test", LeafNodeType: "It", State: "failed"},
		{LeafNodeType: "SynchronizedBeforeSuite", State: "passed"},
	}
	specs[2].Failure.ForwardedPanic = "nil pointer"
	specs[1].CapturedGinkgoWriterOutput = "At 1 - event for c: {flex-provisioner } Provisioning: began\nAt 2 - event for c: {flex-provisioner } ProvisioningFailed: no room\n" +
		"At 3 - event for c: {flex-provisioner } SnapshotNotReady: the claim waits for it\n" +
		"At 3 - event for c: {flex-provisioner } ProvisionerConfigMissing: StorageClass \"c\" does not exist\n" +
		"At 4 - event for c: {kubelet node1} Pulled: image\n"
	want := outcome{states: map[string]State{}, said: map[string]string{
		"[Testpattern: x] fails":          "no; event ProvisioningFailed: no room",
		"[Testpattern: x] panics":         "no nil pointer",
		"[Testpattern: x] takes too long": "no",
		"[Testpattern: x] cannot":         "the driver does not",
	}}
	for name, state := range map[string]State{"passes": Passed, "fails": Failed, "panics": Failed, "takes too long": Failed, "is interrupted": NotRun, "is cut off": NotRun, "cannot": Skipped} {
		want.states["[Testpattern: x] "+name] = state
	}
	got, err := outcomeOf("disks", specs)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	before := spec{LeafNodeType: "SynchronizedBeforeSuite", State: "failed"}
	before.Failure.Message = "no node is ready"
	if _, err := outcomeOf("disks", append(specs, before)); err == nil || err.Error() != "SynchronizedBeforeSuite failed: no node is ready" {
		t.Errorf("of a suite that did not begin: %v", err)
	}
}

// TestExceptionsOfNoClass: a capability that is misspelled is found.
func TestExceptionsOfNoClass(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cannot.yaml")
	if err := os.WriteFile(file, []byte("[{tests: a, says: b, reason: c, with: [blocks]}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadExceptions(file, []Driver{{name: "disks", can: map[string]bool{"block": true}}})
	if want := file + `: the exception for "a" holds for no class: take it out`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestReadDrivers: every class of drivers/ is an example, and what it can do are its capabilities and its file systems.
func TestReadDrivers(t *testing.T) {
	classes, err := ReadDrivers("drivers")
	if err != nil {
		t.Fatal(err)
	}
	can := map[string]map[string]bool{}
	for _, c := range classes {
		can[c.name] = c.can
		if _, err := os.Stat("../../examples/" + c.name + "/class/kustomization.yaml"); err != nil {
			t.Error(err)
		}
	}
	if c := can["cinder-iscsi"]; !c["block"] || !c["xfs"] || c["offlineExpansion"] || c["RWX"] {
		t.Errorf("cinder-iscsi can do %v", c)
	}
	if c := can["nfs-subdir"]; !c["RWX"] || c["block"] || c["xfs"] {
		t.Errorf("nfs-subdir can do %v", c)
	}
}

func TestCounts(t *testing.T) {
	r := Results{Classes: []Class{{Name: "a"}, {Name: "b"}, {Name: "c"}}}
	for want, counts := range map[string][]int{"": {0, 0, 0}, "2 of each": {2, 2, 2}, "3 of b; 1 of a, c": {1, 3, 1}} {
		if got := r.counts(func(c Class) int { return counts[c.Name[0]-'a'] }); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
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

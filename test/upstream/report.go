package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// report is what is read of a file that Ginkgo writes by --json-report.
type report struct {
	SpecReports []spec
}

type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	LeafNodeType            string
	State                   string
	// Failure's ForwardedPanic is what a test panicked with. Its message says no more than that it did.
	Failure struct{ Message, ForwardedPanic string }
	// CapturedGinkgoWriterOutput is the test's log. After a failure it has the events of the test's namespace.
	CapturedGinkgoWriterOutput string
}

// readReport reads the specs of a file: tests, and what Ginkgo runs around them.
func readReport(file string) ([]spec, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read report: %w", err)
	}
	var reports []report
	if err := json.Unmarshal(text, &reports); err != nil {
		return nil, fmt.Errorf("read report %s: %w", file, err)
	}
	var specs []spec
	for _, r := range reports {
		specs = append(specs, r.SpecReports...)
	}
	return specs, nil
}

// testsOf are the names of the class's tests that a report has, run or not, in its order.
func testsOf(class string, specs []spec) []string {
	var names []string
	for _, s := range specs {
		if name, ok := s.test(class); ok {
			names = append(names, name)
		}
	}
	return names
}

// outcome is what came out of tests: their states by name, and what the suite said of those that failed or were skipped.
type outcome struct {
	states map[string]State
	said   map[string]string
}

func (o *outcome) add(other outcome) {
	maps.Copy(o.states, other.states)
	maps.Copy(o.said, other.said)
}

// outcomeOf is what came out of the class's tests that were run. It is an error if something around them failed: then they do not
// say much.
func outcomeOf(class string, specs []spec) (outcome, error) {
	o := outcome{states: map[string]State{}, said: map[string]string{}}
	states := o.states
	var errs []error
	for _, s := range specs {
		name, ok := s.test(class)
		switch {
		case !ok && s.LeafNodeType != "It" && s.State != "passed" && s.State != "skipped":
			errs = append(errs, fmt.Errorf("%s %s: %s", s.LeafNodeType, s.State, s.Failure.Message))
		case !ok:
		case s.State == "passed":
			states[name] = Passed
		case s.State == "skipped" && s.Failure.Message == "", s.State == "pending":
			// not asked for
		case s.State == "interrupted", s.State == "timedout" && s.Failure.Message == "A suite timeout occurred":
			states[name] = NotRun // the run ended before the test
		case s.State == "skipped":
			states[name] = Skipped
		default: // failed, panicked, aborted, or timedout by a limit of the test's own
			states[name] = Failed
		}
		if state := states[name]; ok && (state == Failed || state == Skipped) {
			o.said[name] = s.said()
		}
	}
	return o, errors.Join(errs...)
}

var (
	space        = regexp.MustCompile(`\s+`)
	eventPattern = regexp.MustCompile(`event for \S+ \{flex-provisioner[^}]*\} (\w+: .*)`)
)

// cleanedUp is said of a claim that outlives its snapshot and its class, once the test has ended and cleans up.
var cleanedUp = regexp.MustCompile(`^(ProvisionerConfigMissing: StorageClass "[^"]+" does not exist|SnapshotNotReady: )`)

// said is what the suite said of a failed or skipped test, in a line, and the provisioner's last event in the test's namespace before
// it cleaned up.
func (s *spec) said() string {
	said := cut(space.ReplaceAllString(strings.TrimSpace(s.Failure.Message+" "+s.Failure.ForwardedPanic), " "))
	events := eventPattern.FindAllStringSubmatch(s.CapturedGinkgoWriterOutput, -1)
	events = slices.DeleteFunc(events, func(e []string) bool { return cleanedUp.MatchString(e[1]) })
	if len(events) > 0 {
		said += "; event " + cut(strings.TrimSpace(events[len(events)-1][1]))
	}
	return said
}

func cut(text string) string {
	const most = 300
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// test is the spec's name if it is one of the class's tests: what comes after the driver.
func (s *spec) test(class string) (string, bool) {
	if s.LeafNodeType != "It" {
		return "", false
	}

	// Ginkgo leaves out what has no text, and compares --focus with the rest.
	texts := slices.DeleteFunc(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), func(text string) bool { return text == "" })
	_, name, found := strings.Cut(strings.Join(texts, " "), "[Driver: "+class+"] ")
	return name, found
}

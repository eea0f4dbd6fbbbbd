package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
	Failure                 struct{ Message string }
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

// statesOf are the states of the class's tests that were run, by name. It is an error if something around them failed: then they
// do not say much.
func statesOf(class string, specs []spec) (map[string]State, error) {
	states := map[string]State{}
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
		case s.State == "skipped":
			states[name] = Skipped
		default: // failed, timedout, panicked, interrupted, aborted
			states[name] = Failed
		}
	}
	return states, errors.Join(errs...)
}

// test is the spec's name if it is one of the class's tests: what comes after the driver.
func (s *spec) test(class string) (string, bool) {
	if s.LeafNodeType != "It" {
		return "", false
	}
	_, name, found := strings.Cut(strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "), "[Driver: "+class+"] ")
	return name, found
}

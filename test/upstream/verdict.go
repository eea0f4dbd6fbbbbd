package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// State is what came out of a test.
type State string

const (
	Passed State = "passed"
	Failed State = "failed"
	// Skipped is a test that ends without a result, since the suite finds that the class or the cluster cannot do it.
	Skipped State = "skipped"
	// NotDefined is a test that the suite has for other drivers alone, since the class's file says that it cannot do it.
	NotDefined State = "not defined"
	// NotRun is a test that a run should have run, and did not, or not to its end.
	NotRun State = "not run"
)

// Exception is why some tests cannot pass.
type Exception struct {
	// Tests is a regular expression that the tests' names have a match for.
	Tests string `json:"tests"`
	// Classes, With and Without are for which classes it holds: for those of Classes, or all if there are none, that can do all of
	// With and nothing of Without.
	Classes []string `json:"classes,omitempty"`
	With    []string `json:"with,omitempty"`
	Without []string `json:"without,omitempty"`
	// Says is a regular expression for what the suite says of each of these tests, by which another failure is told from theirs.
	Says string `json:"says"`
	// Reason is a sentence, without its full stop.
	Reason string `json:"reason"`

	pattern, says *regexp.Regexp
	holds         map[string]bool // of a class
}

// ReadExceptions reads cannot.yaml, for the classes.
func ReadExceptions(file string, classes []Driver) ([]Exception, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read exceptions: %w", err)
	}
	var all []Exception
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		return nil, fmt.Errorf("read exceptions of %s: %w", file, err)
	}
	for i := range all {
		e := &all[i]
		if e.pattern, err = regexp.Compile(e.Tests); err != nil {
			return nil, fmt.Errorf("%s: tests: %w", file, err)
		}
		if e.says, err = regexp.Compile(e.Says); err != nil {
			return nil, fmt.Errorf("%s: says: %w", file, err)
		}
		if e.Tests == "" || e.Says == "" || e.Reason == "" {
			return nil, fmt.Errorf("%s: exception %d lacks tests, says or reason: write all three", file, i+1)
		}
		e.holds = map[string]bool{}
		for _, c := range classes {
			lacks := func(what string) bool { return !c.can[what] }
			if (len(e.Classes) == 0 || slices.Contains(e.Classes, c.name)) &&
				!slices.ContainsFunc(e.With, lacks) && !slices.ContainsFunc(e.Without, func(what string) bool { return c.can[what] }) {
				e.holds[c.name] = true
			}
		}
		if len(e.holds) == 0 {
			return nil, fmt.Errorf("%s: the exception for %q holds for no class: take it out", file, e.Tests)
		}
	}
	return all, nil
}

// exceptionFor is the first exception for the test, or nil.
func exceptionFor(all []Exception, class, test string) *Exception {
	for i := range all {
		e := &all[i]
		if e.holds[class] && e.pattern.MatchString(test) {
			return e
		}
	}
	return nil
}

// verdict says what is wrong with a class's results, a line each: tests that did not pass and have no exception, those that did not
// pass for another reason than their exception's, and those that passed although they have one.
func verdict(class string, ran outcome, exceptions []Exception) []string {
	var wrong []string
	for _, test := range slices.Sorted(maps.Keys(ran.states)) {
		e := exceptionFor(exceptions, class, test)
		said := ran.said[test]
		switch state := ran.states[test]; {
		case state == Passed && e != nil:
			wrong = append(wrong, fmt.Sprintf("%s: passed, but cannot.yaml says that it cannot (%s): %s", class, e.Reason, test))
		case state == Passed:
		case e == nil:
			wrong = append(wrong, fmt.Sprintf("%s: %s: %s: %s", class, state, test, said))
		case said != "" && !e.says.MatchString(said):
			wrong = append(wrong, fmt.Sprintf("%s: %s, but not as cannot.yaml says (%s): %s: %s", class, state, e.Says, test, said))
		}
	}
	return wrong
}

// unseen are the classes for which an exception stands for tests, and the suite was never seen to say anything of those.
func (e *Exception) unseen(results Results, exceptions []Exception) []string {
	var classes []string
	for _, c := range results.Classes {
		stands, seen := false, false
		for test, state := range c.Tests {
			if state != Passed && state != NotRun && exceptionFor(exceptions, c.Name, test) == e {
				stands, seen = true, seen || c.Said[test] != ""
			}
		}
		if stands && !seen {
			classes = append(classes, c.Name)
		}
	}
	return classes
}

// unused are the exceptions that no test needs, of those for classes that have results.
func unused(results Results, exceptions []Exception) []string {
	var out []string
	for i := range exceptions {
		e := &exceptions[i]
		tested := func(c Class) bool { return e.holds[c.Name] }
		if slices.ContainsFunc(results.Classes, tested) && !slices.ContainsFunc(results.Classes, func(c Class) bool {
			for test := range c.Tests {
				if exceptionFor(exceptions, c.Name, test) == e {
					return true
				}
			}
			return false
		}) {
			out = append(out, fmt.Sprintf("cannot.yaml: no test matches %q: take it out", strings.TrimSpace(e.Tests)))
		}
	}
	return out
}

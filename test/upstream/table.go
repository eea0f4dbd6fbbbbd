package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// printTables writes the tables of README.md.
func printTables(w io.Writer, r Results, exceptions []Exception) {
	fmt.Fprintf(w, "The tests of Kubernetes %s, at commit %s; the last of them ran on %s.\n\n", r.Kubernetes, r.Commit, r.Date)
	fmt.Fprint(w, "| Class | Passed | By part of the suite | Cannot pass | Not run yet |\n|---|---:|---|---:|---:|\n")
	for _, c := range r.Classes {
		passed := c.count(func(_ string, state State) bool { return state == Passed })
		notRun := c.count(func(_ string, state State) bool { return state == NotRun })
		fmt.Fprintf(w, "| %s | %d | %s | %d | %d |\n", c.Name, passed, c.passedByPart(), len(c.Tests)-passed-notRun, notRun)
	}
	fmt.Fprint(w, "\n| Cannot pass: tests whose names match | How many, of which classes | Why |\n|---|---|---|\n")
	for i := range exceptions {
		e := &exceptions[i]
		why := e.Reason
		if classes := e.unseen(r, exceptions); len(classes) > 0 {
			why += "; not seen in a run yet: " + strings.Join(classes, ", ")
		}
		fmt.Fprintf(w, "| `%s` | %s | %s |\n", strings.ReplaceAll(e.Tests, "|", "\\|"), r.counts(func(c Class) int {
			return c.count(func(name string, state State) bool {
				return state != NotRun && exceptionFor(exceptions, c.Name, name) == e
			})
		}), why)
	}
}

// passedByPart is how many tests of each part of the suite passed.
func (c Class) passedByPart() string {
	parts := map[string]int{}
	for name, state := range c.Tests {
		if state == Passed {
			parts[partOf(name)]++
		}
	}
	var texts []string
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		texts = append(texts, fmt.Sprintf("%s %d", part, parts[part]))
	}
	return strings.Join(texts, ", ")
}

// counts is a count of each class in words: the highest first, with the classes that have it.
func (r *Results) counts(of func(Class) int) string {
	classes := map[int][]string{}
	for _, c := range r.Classes {
		if n := of(c); n > 0 {
			classes[n] = append(classes[n], c.Name)
		}
	}
	var texts []string
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(classes))) {
		if len(classes[n]) == len(r.Classes) {
			return fmt.Sprintf("%d of each", n)
		}
		texts = append(texts, fmt.Sprintf("%d of %s", n, strings.Join(classes[n], ", ")))
	}
	return strings.Join(texts, "; ")
}

func (c Class) count(what func(name string, state State) bool) int {
	n := 0
	for name, state := range c.Tests {
		if what(name, state) {
			n++
		}
	}
	return n
}

var partPattern = regexp.MustCompile(`^\[Testpattern: [^\]]*\] (?:\[[^\]]*\] )*(\S+)`)

// partOf is the part of the suite that has the test: the word after the pattern and its tags.
func partOf(name string) string {
	if m := partPattern.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

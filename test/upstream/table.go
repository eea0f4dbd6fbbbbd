package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// printTables writes the tables of docs/upstream.md.
func printTables(w io.Writer, r Results, exceptions []Exception) {
	fmt.Fprintf(w, "The tests of Kubernetes %s, at commit %s; the last of them ran on %s.\n\n", r.Kubernetes, r.Commit, r.Date)
	head := func(first string) {
		fmt.Fprintf(w, "| %s |", first)
		for _, c := range r.Classes {
			fmt.Fprintf(w, " %s |", c.Name)
		}
	}
	rule := "|---|" + strings.Repeat("---:|", len(r.Classes))
	row := func(first string, of func(Class) int) {
		fmt.Fprintf(w, "| %s |", first)
		for _, c := range r.Classes {
			fmt.Fprintf(w, " %s |", number(of(c)))
		}
	}
	head("Passed, by part of the suite")
	fmt.Fprintf(w, "\n%s\n", rule)
	for _, part := range r.parts() {
		row(part, func(c Class) int {
			return c.count(func(name string, state State) bool { return state == Passed && partOf(name) == part })
		})
		fmt.Fprintln(w)
	}
	row("**all**", func(c Class) int { return c.count(func(_ string, state State) bool { return state == Passed }) })
	fmt.Fprint(w, "\n\n")
	head("Cannot pass: tests whose names match")
	fmt.Fprintf(w, " Why |\n%s---|\n", rule)
	for i := range exceptions {
		e := &exceptions[i]
		row("`"+strings.ReplaceAll(e.Tests, "|", "\\|")+"`", func(c Class) int {
			return c.count(func(name string, state State) bool {
				if state == NotRun {
					return false
				}
				return exceptionFor(exceptions, c.Name, name) == e
			})
		})
		why := e.Reason
		if classes := e.unseen(r, exceptions); len(classes) > 0 {
			why += "; not seen in a run yet: " + strings.Join(classes, ", ")
		}
		fmt.Fprintf(w, " %s |\n", why)
	}
	row("**all**", func(c Class) int {
		return c.count(func(_ string, state State) bool { return state != Passed && state != NotRun })
	})
	fmt.Fprintln(w, " |")
	if notRun := func(_ string, state State) bool { return state == NotRun }; r.any(notRun) {
		row("**not run yet**", func(c Class) int { return c.count(notRun) })
		fmt.Fprintln(w, " |")
	}
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
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

func (r *Results) any(what func(name string, state State) bool) bool {
	return slices.ContainsFunc(r.Classes, func(c Class) bool { return c.count(what) > 0 })
}

// parts are the parts of the suite of which some test passed.
func (r *Results) parts() []string {
	parts := map[string]bool{}
	for _, c := range r.Classes {
		for name, state := range c.Tests {
			if state == Passed {
				parts[partOf(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(parts))
}

var partPattern = regexp.MustCompile(`^\[Testpattern: [^\]]*\] (?:\[[^\]]*\] )*(\S+)`)

// partOf is the part of the suite that has the test: the word after the pattern and its tags.
func partOf(name string) string {
	if m := partPattern.FindStringSubmatch(name); m != nil {
		return m[1]
	}
	return name
}

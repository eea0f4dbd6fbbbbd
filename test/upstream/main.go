// Command upstream judges a run of Kubernetes' own storage tests by cannot.yaml, and prints the results as the tables of
// README.md. run.sh runs the tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

const usage = `usage:
  upstream -class CLASS -all FILE -defined FILE [-whole | -claim] [-commit COMMIT] [-results FILE] RAN...
      judges a run by the files that Ginkgo wrote: of the tests that the suite has, of those that it has for the class, and of
      those that it ran; and puts it into the results
  upstream -class CLASS -all FILE -defined FILE -cannot REGEXP
      prints regular expressions for the tests that match REGEXP, and cannot pass or are not defined for the class
  upstream -class CLASS -all FILE -defined FILE -new REGEXP
      prints regular expressions for the tests that match REGEXP, and have no result yet
  upstream -table FILE
      prints results as the tables of README.md`

type settings struct {
	class, all, defined, commit, results, table, exceptions, drivers, cannot, new string
	whole, claim                                                                  bool
}

func main() {
	var s settings
	flag.StringVar(&s.class, "class", "", "the `class` that was tested")
	flag.StringVar(&s.all, "all", "", "`report` of a dry run for a driver that can do everything")
	flag.StringVar(&s.defined, "defined", "", "`report` of a dry run for the class")
	flag.BoolVar(&s.whole, "whole", false, "what was not run is missing")
	flag.BoolVar(&s.claim, "claim", false, "the run was as if the class could do everything")
	flag.StringVar(&s.cannot, "cannot", "", "print the tests that match the `regexp`, and cannot pass")
	flag.StringVar(&s.new, "new", "", "print the tests that match the `regexp`, and have no result yet")
	flag.StringVar(&s.commit, "commit", "", "the `commit` that was tested")
	flag.StringVar(&s.results, "results", "bin/upstream.json", "`file` with the results of all classes")
	flag.StringVar(&s.exceptions, "exceptions", "test/upstream/cannot.yaml", "`file` with the tests that cannot pass")
	flag.StringVar(&s.drivers, "drivers", "test/upstream/drivers", "`folder` that says what the classes can do")
	flag.StringVar(&s.table, "table", "", "results `file` to print")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	if err := s.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func (s *settings) run(ran []string) error {
	classes, err := ReadDrivers(s.drivers)
	if err != nil {
		return err
	}
	exceptions, err := ReadExceptions(s.exceptions, classes)
	if err != nil {
		return err
	}
	if s.table != "" {
		results, err := ReadResults(s.table)
		if err != nil {
			return err
		}
		if wrong := append(results.wrong(exceptions), unused(results, exceptions)...); len(wrong) > 0 {
			return errors.New(s.table + " and " + s.exceptions + " do not agree:\n" + strings.Join(wrong, "\n"))
		}
		printTables(os.Stdout, results, exceptions)
		return nil
	}
	if s.class == "" || s.all == "" || s.defined == "" || len(ran) == 0 != (s.cannot+s.new != "") {
		return errors.New(usage)
	}
	return s.judge(exceptions, ran)
}

// judge puts a run into the results, and returns what is wrong with it.
func (s *settings) judge(exceptions []Exception, files []string) error {
	all, err := readReport(s.all)
	if err != nil {
		return err
	}
	defined, err := readReport(s.defined)
	if err != nil {
		return err
	}
	allTests, definedTests := testsOf(s.class, all), testsOf(s.class, defined)
	if s.cannot != "" {
		return printCannot(s.class, s.cannot, allTests, definedTests, exceptions)
	}
	if s.new != "" {
		return s.printNew(definedTests, exceptions)
	}
	ran := outcome{states: map[string]State{}, said: map[string]string{}}
	var around error
	for _, file := range files {
		specs, err := readReport(file)
		if err != nil {
			return err
		}
		more, err := outcomeOf(s.class, specs)
		around = errors.Join(around, err)
		ran.add(more)
	}
	results, err := ReadResults(s.results)
	if err != nil {
		return err
	}
	results.Date, results.Commit, results.Kubernetes = time.Now().UTC().Format(time.DateOnly), s.commit, "v1.37.0"
	var known outcome
	if s.claim {
		known = results.class(s.class).say(ran)
	} else {
		results.take(s.class, allTests, definedTests, ran, s.whole)
	}
	if err := results.write(s.results); err != nil {
		return err
	}
	if s.whole {
		c := results.class(s.class)
		ran = outcome{states: c.Tests, said: c.Said}
	}
	passed := 0
	for _, state := range ran.states {
		if state == Passed {
			passed++
		}
	}
	fmt.Printf("%s: %d passed, %d did not\n", s.class, passed, len(ran.states)-passed)

	if s.claim { // that a test passed as if the class could do everything is no result of the class
		ran = known
	}
	if wrong := verdict(s.class, ran, exceptions); len(wrong) > 0 {
		around = errors.Join(around, fmt.Errorf("%d tests did not come out as they should:\n%s", len(wrong), strings.Join(wrong, "\n")))
	}
	if len(ran.states) == 0 {
		around = errors.Join(around, errors.New("no test ran: FOCUS matches none, or with NEW=1 each has a result"))
	}
	return around
}

// wrong is what is wrong with all results. What was not run yet is not: the tables say how much that is.
func (r *Results) wrong(exceptions []Exception) []string {
	var all []string
	for _, c := range r.Classes {
		ran := outcome{states: maps.Clone(c.Tests), said: c.Said}
		maps.DeleteFunc(ran.states, func(_ string, state State) bool { return state == NotRun })
		all = append(all, verdict(c.Name, ran, exceptions)...)
	}
	return all
}

// printCannot prints regular expressions for what no run of the class as it is shows the reasons of: tests that the suite does not
// define for it, and those that cannot pass, which it often skips.
func printCannot(class, matching string, all, defined []string, exceptions []Exception) error {
	pattern, err := regexp.Compile(matching)
	if err != nil {
		return err
	}
	for _, name := range all {
		if pattern.MatchString(name) && (!slices.Contains(defined, name) || exceptionFor(exceptions, class, name) != nil) {
			fmt.Println("Driver: " + class + `\] ` + regexp.QuoteMeta(name) + "$")
		}
	}
	return nil
}

// printNew prints regular expressions for the tests of the class without a result, or of which nothing was said why they have none,
// and for those that failed and have no exception.
func (s *settings) printNew(defined []string, exceptions []Exception) error {
	pattern, err := regexp.Compile(s.new)
	if err != nil {
		return err
	}
	results, err := ReadResults(s.results)
	if err != nil {
		return err
	}
	c := results.class(s.class)
	for _, name := range defined {
		if pattern.MatchString(name) && c.Tests[name] != Passed && (c.Said[name] == "" || exceptionFor(exceptions, s.class, name) == nil) {
			fmt.Println("Driver: " + s.class + `\] ` + regexp.QuoteMeta(name) + "$")
		}
	}
	return nil
}

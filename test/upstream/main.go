// Command upstream judges a run of Kubernetes' own storage tests by cannot.yaml, and prints the results as the tables of
// docs/upstream.md. run.sh runs the tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

const usage = `usage:
  upstream -class CLASS -all FILE -defined FILE [-whole] [-commit COMMIT] [-results FILE] RAN...
      judges a run by the files that Ginkgo wrote: of the tests that the suite has, of those that it has for the class, and of
      those that it ran; and puts it into the results
  upstream -table FILE
      prints results as the tables of docs/upstream.md`

type settings struct {
	class, all, defined, commit, results, table, exceptions string
	whole                                                   bool
}

func main() {
	var s settings
	flag.StringVar(&s.class, "class", "", "the `class` that was tested")
	flag.StringVar(&s.all, "all", "", "`report` of a dry run for a driver that can do everything")
	flag.StringVar(&s.defined, "defined", "", "`report` of a dry run for the class")
	flag.BoolVar(&s.whole, "whole", false, "what was not run is missing")
	flag.StringVar(&s.commit, "commit", "", "the `commit` that was tested")
	flag.StringVar(&s.results, "results", "bin/upstream.json", "`file` with the results of all classes")
	flag.StringVar(&s.exceptions, "exceptions", "test/upstream/cannot.yaml", "`file` with the tests that cannot pass")
	flag.StringVar(&s.table, "table", "", "results `file` to print")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	if err := s.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func (s *settings) run(ran []string) error {
	exceptions, err := ReadExceptions(s.exceptions)
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
	if s.class == "" || s.all == "" || s.defined == "" || len(ran) == 0 {
		return errors.New(usage)
	}
	return s.judge(exceptions, ran)
}

// judge puts a run into the results, and returns what is wrong with it.
func (s *settings) judge(exceptions []Exception, ran []string) error {
	all, err := readReport(s.all)
	if err != nil {
		return err
	}
	defined, err := readReport(s.defined)
	if err != nil {
		return err
	}
	states := map[string]State{}
	var around error
	for _, file := range ran {
		specs, err := readReport(file)
		if err != nil {
			return err
		}
		more, err := statesOf(s.class, specs)
		around = errors.Join(around, err)
		maps.Copy(states, more)
	}
	results, err := ReadResults(s.results)
	if err != nil {
		return err
	}
	results.Date, results.Commit, results.Kubernetes = time.Now().UTC().Format(time.DateOnly), s.commit, "v1.37.0"
	results.take(s.class, testsOf(s.class, all), testsOf(s.class, defined), states, s.whole)
	if err := results.write(s.results); err != nil {
		return err
	}
	judged := states
	if s.whole {
		judged = results.of(s.class).Tests
	}
	passed, listed := 0, 0
	for _, state := range judged {
		if state == Passed {
			passed++
		} else {
			listed++
		}
	}
	fmt.Printf("%s: %d passed, %d did not\n", s.class, passed, listed)
	if wrong := verdict(s.class, judged, exceptions); len(wrong) > 0 {
		around = errors.Join(around, fmt.Errorf("%d tests did not come out as they should:\n%s", len(wrong), strings.Join(wrong, "\n")))
	}
	if len(judged) == 0 {
		around = errors.Join(around, errors.New("no test ran: is FOCUS right?"))
	}
	return around
}

// wrong is what is wrong with all results. What was not run yet is not: the tables say how much that is.
func (r *Results) wrong(exceptions []Exception) []string {
	var all []string
	for _, c := range r.Classes {
		ran := maps.Clone(c.Tests)
		maps.DeleteFunc(ran, func(_ string, state State) bool { return state == NotRun })
		all = append(all, verdict(c.Name, ran, exceptions)...)
	}
	return all
}

func (r *Results) of(class string) Class {
	return r.Classes[slices.IndexFunc(r.Classes, func(c Class) bool { return c.Name == class })]
}

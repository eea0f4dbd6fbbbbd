package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Results is the file that runs write, and that the tables of README.md are made from.
type Results struct {
	// Date is the day of the last run that is in here, and Commit what it tested.
	Date   string `json:"date"`
	Commit string `json:"commit"`
	// Kubernetes is the version of the suite and of the cluster.
	Kubernetes string  `json:"kubernetes"`
	Classes    []Class `json:"classes"`
}

// Class is what came out for a class.
type Class struct {
	Name string `json:"name"`
	// Tests are all that the suite has for any driver, by name.
	Tests map[string]State `json:"tests"`
	// Said is what the suite said of the tests that failed or were skipped, and of those that are not defined for the class, when
	// they ran as if it could do everything.
	Said map[string]string `json:"said"`
}

// ReadResults reads the file; without one there are no results.
func ReadResults(file string) (Results, error) {
	var r Results
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read results: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("read results of %s: %w", file, err)
	}
	return r, nil
}

func (r *Results) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

// take puts what a run brought into the results: all are the tests that the suite has, and defined those that it has for the class.
// What was not run, or not to its end, keeps the state of an earlier run, unless the run is a whole one.
func (r *Results) take(class string, all, defined []string, ran outcome, whole bool) {
	c := r.class(class)
	tests := map[string]State{}
	for _, name := range all {
		tests[name] = NotDefined
	}
	for _, name := range defined {
		tests[name] = NotRun
		if was := c.Tests[name]; !whole && was != "" && was != NotDefined {
			tests[name] = was
		}
	}
	for name, state := range ran.states {
		if was := tests[name]; state != NotRun || whole || was == "" || was == NotDefined {
			tests[name] = state
		}
	}
	c.Tests = tests
	c.say(ran)
}

// say keeps what was said of tests that are still there and did not pass. A test that is not defined and passed is told from one of
// which nothing was said. It returns what is known of the tests that ran by now.
func (c *Class) say(ran outcome) (known outcome) {
	said := map[string]string{}
	for name, state := range c.Tests {
		switch {
		case state == Passed || state == NotRun:
		case ran.states[name] == Passed:
			said[name] = string(Passed)
		case ran.said[name] != "":
			said[name] = ran.said[name]
		case c.Said[name] != "":
			said[name] = c.Said[name]
		}
	}
	c.Said = said

	known = outcome{states: map[string]State{}, said: map[string]string{}}
	for name := range ran.states {
		known.states[name], known.said[name] = c.Tests[name], said[name]
	}
	return known
}

// class is the class's place in the results.
func (r *Results) class(name string) *Class {
	i := slices.IndexFunc(r.Classes, func(c Class) bool { return c.Name == name })
	if i < 0 {
		r.Classes = append(r.Classes, Class{Name: name})
		i = len(r.Classes) - 1
	}
	return &r.Classes[i]
}

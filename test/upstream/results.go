package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Results is the file that runs write, and that docs/upstream.md is made from.
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

// take puts what a run brought into the results: all are the tests that the suite has, defined those that it has for the class,
// and states those that were run. What was not run keeps the state of an earlier run, unless the run is a whole one.
func (r *Results) take(class string, all, defined []string, states map[string]State, whole bool) {
	i := slices.IndexFunc(r.Classes, func(c Class) bool { return c.Name == class })
	if i < 0 {
		r.Classes = append(r.Classes, Class{Name: class})
		i = len(r.Classes) - 1
	}
	before := r.Classes[i].Tests
	tests := map[string]State{}
	for _, name := range all {
		tests[name] = NotDefined
	}
	for _, name := range defined {
		tests[name] = NotRun
		if was := before[name]; !whole && was != "" && was != NotDefined {
			tests[name] = was
		}
	}
	for name, state := range states {
		tests[name] = state
	}
	r.Classes[i].Tests = tests
}

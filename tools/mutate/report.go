package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// reason says why no test kills a mutant.
type reason struct {
	mutant
	Why string `json:"why"`
}

// readReasons reads those of each package.
func readReasons(name string) (map[string][]reason, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var reasons map[string][]reason
	if err := yaml.UnmarshalStrict(data, &reasons); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for pkg, list := range reasons {
		if _, err := choose(pkg); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, r := range list {
			if r.Why == "" {
				return nil, fmt.Errorf("%s: %s has no why", name, r.mutant)
			}
		}
	}
	return reasons, nil
}

func find(list []reason, m mutant) int {
	return slices.IndexFunc(list, func(r reason) bool { return r.mutant == m })
}

// report is for people: the score, and every survivor with where it is now.
func (r *result) report(reasons []reason) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: %d of %d mutants killed (%.1f %%), %d of them by later stages; %d survived\n",
		r.Package, r.Killed, r.total(), 100*r.score(), r.Later, len(r.Survivors))
	for i, m := range r.Survivors {
		fmt.Fprintf(&b, "  %s/%s:%d: %s\n", r.Package, m.File, r.lines[i], m.Change)
		if at := find(reasons, m); at >= 0 {
			fmt.Fprintf(&b, "    %s\n", reasons[at].Why)
			continue
		}
		fmt.Fprintf(&b, "    kill it by a test, or give a reason in %s:\n    - file: %s\n      func: %s\n      change: '%s'\n      why: ...\n",
			survivorsFile, m.File, m.Func, strings.ReplaceAll(m.Change, "'", "''"))
	}
	return b.String()
}

// check is an error where too few were killed, a survivor has no reason or a reason no survivor.
func (r *result) check(reasons []reason) error {
	var faults []error
	if r.score() < least {
		faults = append(faults, fmt.Errorf("package %s: %.1f %% of the mutants were killed, less than %.0f %%", r.Package, 100*r.score(), 100*least))
	}
	for _, m := range r.Survivors {
		if find(reasons, m) < 0 {
			faults = append(faults, fmt.Errorf("package %s: %s survived without a reason", r.Package, m))
		}
	}
	for _, reason := range reasons {
		if !slices.Contains(r.Survivors, reason.mutant) {
			faults = append(faults, fmt.Errorf("package %s: %s did not survive; remove its reason from %s", r.Package, reason.mutant, survivorsFile))
		}
	}
	return errors.Join(faults...)
}

// writeScore replaces the package's row in the table.
func writeScore(name string, r *result) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	first := fmt.Sprintf("| `%s` |", r.Package)
	lines := strings.Split(string(data), "\n")
	at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, first) })
	if at < 0 {
		return fmt.Errorf("%s has no row %s", name, first)
	}
	lines[at] = fmt.Sprintf("%s %d | %d | %d | %d | %.1f %% |", first, r.total(), r.Killed, r.Later, len(r.Survivors), 100*r.score())
	return os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o644)
}

package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
)

// figure is one line of the report.
type figure struct {
	// Case is the number and name of the case, What is measured, Unit one of ms, s, MB, 1/s, ratio and count.
	Case string `json:"case"`
	What string `json:"what"`
	Unit string `json:"unit"`
	// Runs are the value of each run; Median is what counts.
	Runs   []float64 `json:"runs"`
	Median float64   `json:"median"`
	// P99 over all that was measured in all runs, where a run has many.
	P99 float64 `json:"p99,omitempty"`
	// AtMost or AtLeast is the goal.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Goal is "met" or "missed", empty where there is none.
	Goal string `json:"goal,omitempty"`
	// Note says what the value is made of.
	Note string `json:"note,omitempty"`
}

// report collects figures; those of one case and name become the runs of one line.
type report struct {
	Date    string    `json:"date"`
	Commit  string    `json:"commit"`
	Took    string    `json:"took"`
	Machine string    `json:"machine"`
	Figures []*figure `json:"figures"`
}

// add notes the value of one run.
func (r *report) add(f figure, value float64) *figure {
	i := slices.IndexFunc(r.Figures, func(known *figure) bool { return known.Case == f.Case && known.What == f.What })
	if i < 0 {
		r.Figures = append(r.Figures, &f)
		i = len(r.Figures) - 1
	}
	line := r.Figures[i]
	line.Runs = append(line.Runs, value)
	line.Note = cmp.Or(f.Note, line.Note)
	line.P99 = max(line.P99, f.P99)
	line.judge()
	return line
}

func (f *figure) judge() {
	sorted := slices.Sorted(slices.Values(f.Runs))
	f.Median = sorted[len(sorted)/2]
	if len(sorted)%2 == 0 {
		f.Median = (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]) / 2
	}
	switch {
	case f.AtMost == 0 && f.AtLeast == 0:
	case f.AtMost > 0 && f.Median > f.AtMost, f.AtLeast > 0 && f.Median < f.AtLeast:
		f.Goal = "missed"
	default:
		f.Goal = "met"
	}
}

// missed are the ratios and counts that fall short. Times and sizes depend on the machine: they are printed, not asserted.
func (r *report) missed() []string {
	var list []string
	for _, f := range r.Figures {
		if f.Goal == "missed" && (f.Unit == "ratio" || f.Unit == "count") {
			list = append(list, fmt.Sprintf("%s: %s is %.3g, the goal is %s", f.Case, f.What, f.Median, f.goal()))
		}
	}
	return list
}

func (f *figure) goal() string {
	switch {
	case f.AtMost > 0 && f.AtLeast > 0:
		return fmt.Sprintf("= %g", f.AtMost)
	case f.AtMost > 0:
		return fmt.Sprintf("<= %g", f.AtMost)
	case f.AtLeast > 0:
		return fmt.Sprintf(">= %g", f.AtLeast)
	}
	return ""
}

// printFigures writes the figures of a case.
func printFigures(w io.Writer, figures []*figure) {
	last := ""
	for _, f := range figures {
		if f.Case != last {
			fmt.Fprintf(w, "\n%-76s %9s %9s  %-5s %-8s %s\n", f.Case, "median", "p99", "unit", "goal", "")
			last = f.Case
		}
		p99 := ""
		if f.P99 != 0 {
			p99 = fmt.Sprintf("%.1f", f.P99)
		}
		fmt.Fprintf(w, "  %-74s %9.2f %9s  %-5s %-8s %s\n", f.What, f.Median, p99, f.Unit, f.goal(), f.Goal)
		if len(f.Runs) > 1 {
			fmt.Fprintf(w, "    runs: %.2f\n", f.Runs)
		}
		if f.Note != "" {
			fmt.Fprintf(w, "    %s\n", f.Note)
		}
	}
}

func (r *report) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write figures: %w", err)
	}
	return nil
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// printTable writes the figures of a JSON file as the tables of README.md, one figure a cell.
func printTable(w io.Writer, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read figures of %s: %w", path, err)
	}
	fmt.Fprintf(w, "Measured on %s at commit %s, within %s.\nThe machine: %s.\n", r.Date, r.Commit, r.Took, r.Machine)
	last := ""
	for _, f := range r.Figures {
		if f.Case != last {
			fmt.Fprintf(w, "\n### %s\n\n| | Median | p99 | Unit | Goal | |\n|---|---:|---:|---|---|---|\n", title(f.Case))
			last = f.Case
		}
		p99 := ""
		if f.P99 != 0 {
			p99 = digits(f.P99)
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", f.What, digits(f.Median), p99, f.Unit, f.goal(), f.Goal)
	}
	return nil
}

// title is a case without its number, which says nothing to a reader of the page.
func title(name string) string {
	name = strings.TrimLeft(name, "0123456789- ")
	return strings.ToUpper(name[:1]) + name[1:]
}

// digits is a figure as exact as it can be believed.
func digits(value float64) string {
	switch {
	case value < 10:
		return strconv.FormatFloat(value, 'f', 2, 64)
	case value < 100:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 0, 64)
}

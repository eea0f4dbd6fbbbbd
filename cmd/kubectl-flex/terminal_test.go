package main

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
)

// TestPaint: colors are for terminals, and whoever says so has the last word.
func TestPaint(t *testing.T) {
	const painted = "\x1b[31mFailed\x1b[0m"
	for name, c := range map[string]struct {
		color, noColor, terminal string
		width                    int
		want                     string
	}{
		"a terminal":         {color: "auto", terminal: "xterm", width: 80, want: painted},
		"a pipe":             {color: "auto", terminal: "xterm", want: "Failed"},
		"NO_COLOR":           {color: "auto", noColor: "1", terminal: "xterm", width: 80, want: "Failed"},
		"a terminal without": {color: "auto", terminal: "dumb", width: 80, want: "Failed"},
		"never":              {color: "never", terminal: "xterm", width: 80, want: "Failed"},
		"always":             {color: "always", noColor: "1", want: painted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("NO_COLOR", c.noColor)
			t.Setenv("TERM", c.terminal)
			o := &options{color: c.color, width: c.width}
			if got := o.paint(red, "Failed"); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestColourOf(t *testing.T) {
	for want, s := range map[color]inspect.State{
		green:  {Phase: inspect.Bound},
		yellow: {Phase: "Running"},
		red:    {Phase: "Running", Cause: inspect.Cause{Warning: true}},
		"":     {Phase: inspect.Bound, NotOurs: "csi.example.com"},
	} {
		if got := colourOf(s); got != want {
			t.Errorf("%s: %q, want %q", s.Phase, got, want)
		}
	}
}

// TestColumns: a table fits its terminal, by its last column, and colors do not move columns.
func TestColumns(t *testing.T) {
	rows := func() [][]string {
		return [][]string{{"a", "Failed", strings.Repeat("long ", 12)}, {"bcdefgh", "", "ü"}}
	}
	const name = "A         B        C\n"
	for what, c := range map[string]struct {
		o    options
		want string
	}{
		"no terminal": {options{}, name +
			"a         Failed   " + strings.Repeat("long ", 12) + "\nbcdefgh   -        ü\n"},
		"a terminal": {options{width: 50}, name +
			"a         Failed   long long long long long lon...\nbcdefgh   -        ü\n"},
		"wide": {options{width: 50, output: "wide"}, name +
			"a         Failed   " + strings.Repeat("long ", 12) + "\nbcdefgh   -        ü\n"},
		"too narrow to cut": {options{width: 30}, name +
			"a         Failed   " + strings.Repeat("long ", 12) + "\nbcdefgh   -        ü\n"},
		"colored": {options{color: "always", width: 50}, name +
			"a         \x1b[31mFailed\x1b[0m   long long long long long lon...\nbcdefgh   \x1b[31m-\x1b[0m        ü\n"},
	} {
		t.Run(what, func(t *testing.T) {
			var out bytes.Buffer
			o := c.o
			o.color = cmp.Or(o.color, "never")
			o.IOStreams = genericiooptions.IOStreams{Out: &out}
			paint := func(_, column int) color {
				if column == 1 {
					return red
				}
				return ""
			}
			if err := o.columns("A B C", rows(), paint); err != nil || out.String() != c.want {
				t.Errorf("%v, printed\n%q, want\n%q", err, out.String(), c.want)
			}
		})
	}
	if widthOf(&bytes.Buffer{}) != 0 {
		t.Error("a buffer is no terminal")
	}
}

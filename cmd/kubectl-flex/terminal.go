package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
)

// widthOf is the number of columns of the terminal that an output is, 0 for what is none.
func widthOf(out io.Writer) int {
	file, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// color is the number of a terminal's color, empty for its own.
type color string

// Colors of phases and of the results of checks.
const (
	red    color = "31"
	green  color = "32"
	yellow color = "33"
)

// colors are the values of --color.
var colors = []string{"auto", "always", "never"}

// checkColour refuses another value of --color.
func (o *options) checkColour(c *cobra.Command, _ []string) error {
	if !slices.Contains(colors, o.color) {
		return usageFault(c, fmt.Errorf("--color=%q: say %s", o.color, either(colors)))
	}
	return nil
}

// paint colors a text where the output is a terminal, unless the caller wants otherwise (https://no-color.org).
func (o *options) paint(c color, text string) string {
	wanted := o.color == "always" ||
		o.color != "never" && o.width > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	if !wanted || c == "" || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// colourOf is that of a claim's phase.
func colourOf(s inspect.State) color {
	switch {
	case s.NotOurs != "":
		return ""
	case s.Troubled():
		return red
	case s.Done():
		return green
	}
	return yellow
}

// colourOfResult is that of the result of a check.
var colourOfResult = map[inspect.Result]color{inspect.ResultOk: green, inspect.ResultWarning: yellow, inspect.ResultFailed: red}

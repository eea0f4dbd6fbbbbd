package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// encode writes a value as YAML or JSON. ok is false for other formats.
func (o *options) encode(value any) (ok bool, err error) {
	var text []byte
	template, path := strings.CutPrefix(o.output, jsonPath)
	switch {
	case path:
		text, err = extract(template, value)
	case o.output == "yaml":
		text, err = yaml.Marshal(value)
		if o.headed {
			text = append([]byte("---\n"), text...)
		}
		o.headed = true
	case o.output == "json":
		if text, err = json.MarshalIndent(value, "", "  "); err == nil {
			text = append(text, '\n')
		}
	default:
		return false, nil
	}
	if err == nil {
		_, err = o.Out.Write(text)
	}
	return true, err
}

// extract is what a template of JSONPath finds in a value, as kubectl -o jsonpath prints it.
func extract(template string, value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var data any
	if err := json.Unmarshal(text, &data); err != nil {
		return nil, err
	}

	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := path.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("evaluate jsonpath: %w", err)
	}
	return out.Bytes(), nil
}

// gap is the number of spaces between two columns, and narrowest the width of a column with them, as kubectl has them.
const gap, narrowest = 3, 6

// columns writes rows below a heading, if there is one. An empty cell is printed as a dash. On a terminal the last cell
// is cut to what is left of the line. paint is the color of a cell, or nil.
func (o *options) columns(heading string, rows [][]string, paint func(row, column int) color) error {
	above := 0
	if heading != "" {
		rows, above = append([][]string{strings.Fields(heading)}, rows...), 1
	}
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
	}

	widths := widthsOf(rows)
	var text strings.Builder
	for i, row := range rows {
		left := o.width
		for j, cell := range row[:len(row)-1] {
			left -= widths[j]
			padding := strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell))
			if paint != nil && i >= above {
				cell = o.paint(paint(i-above, j), cell)
			}
			text.WriteString(cell + padding)
		}
		text.WriteString(o.cut(row[len(row)-1], left) + "\n")
	}
	_, err := io.WriteString(o.Out, text.String())
	return err
}

// widthsOf are the widths of the columns.
func widthsOf(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		for j, cell := range row {
			if j == len(widths) {
				widths = append(widths, narrowest)
			}
			widths[j] = max(widths[j], utf8.RuneCountInString(cell)+gap)
		}
	}
	return widths
}

// leastLeft is the number of columns from which a cell is cut. In fewer it would say nothing.
const leastLeft = 20

// cut cuts the last cell of a line to the columns that are left on a terminal.
func (o *options) cut(cell string, left int) string {
	if o.output == "wide" || left < leastLeft {
		return cell
	}
	if runes := []rune(cell); len(runes) > left {
		return string(runes[:left-3]) + "..."
	}
	return cell
}

// maxMessage is the limit in bytes on a message in a table that goes to no terminal.
const maxMessage = 90

func (o *options) ago(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return duration.HumanDuration(o.now().Sub(t))
}

// until is the time that is left until t, "now" once it has passed.
func (o *options) until(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case !t.After(o.now()):
		return "now"
	}
	return "in " + duration.HumanDuration(t.Sub(o.now()).Round(time.Second))
}

func number(n int) string {
	if n < 0 {
		return ""
	}
	return strconv.Itoa(n)
}

const (
	claimHeading = "CLAIM CLASS OPERATION PHASE FOR ATTEMPT NEXT REASON MESSAGE"
	wideHeading  = "CLAIM CLASS OPERATION PHASE FOR ATTEMPT NEXT POD NODE REASON MESSAGE"
)

// phaseColumn is the column PHASE.
const phaseColumn = 3

func (o *options) claimRow(s inspect.State) []string {
	name := s.Claim
	switch {
	case s.OfSnapshot:
		name = s.Subject()
	case s.Namespace != "":
		name = s.Namespace + "/" + s.Claim
	}
	if name == "" {
		name = s.Volume
	}
	message := s.Message
	if s.Pod != "" { // it has a column
		message = withoutPod(message, s.Pod)
	}
	row := []string{name, s.Class, s.Operation, string(s.Phase), o.ago(s.Since), number(s.Attempt), o.until(s.NextAttempt)}
	if o.output == "wide" {
		row = append(row, s.Pod, s.Node)
	} else if o.width == 0 {
		message = contract.Clip(message, maxMessage)
	}
	return append(row, string(s.Reason), message)
}

// withoutPod is an event's message without the pod that it ends with.
func withoutPod(message, pod string) string {
	before, _, found := strings.Cut(message, "/"+pod+")")
	if i := strings.LastIndex(before, " (pod "); found && i >= 0 {
		return before[:i] + message[len(before)+len("/"+pod+")"):]
	}
	return message
}

// claimTable writes the heading above the first table only, since a watch prints more tables below it.
func (o *options) claimTable(states []inspect.State) error {
	heading := claimHeading
	switch {
	case o.headed:
		heading = ""
	case o.output == "wide":
		heading = wideHeading
	}
	o.headed = true
	var rows [][]string
	for _, s := range states {
		rows = append(rows, o.claimRow(s))
	}
	return o.columns(heading, rows, func(row, column int) color {
		if column != phaseColumn {
			return ""
		}
		return colourOf(states[row])
	})
}

// unread prints what could not be read, and the right that it takes.
func (o *options) unread(list []inspect.Unread) {
	for _, u := range list {
		fmt.Fprintf(o.ErrOut, "not read: %s; it takes the right to %s\n", u.Kind, u.Right)
	}
}

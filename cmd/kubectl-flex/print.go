package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// encode writes a value as YAML or JSON. ok is false for other formats.
func (o *options) encode(value any) (ok bool, err error) {
	var text []byte
	switch o.output {
	case "yaml":
		text, err = yaml.Marshal(value)
		if o.headed {
			text = append([]byte("---\n"), text...)
		}
		o.headed = true
	case "json":
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

// columns writes rows below a heading, if there is one. An empty cell is printed as a dash.
func columns(out io.Writer, heading string, rows [][]string) error {
	w := printers.GetNewTabWriter(out)
	if heading != "" {
		fmt.Fprintln(w, strings.ReplaceAll(heading, " ", "\t"))
	}
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// maxMessage is the limit in bytes on a message in a table.
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

func (o *options) claimRow(s inspect.State) []string {
	name := s.Claim
	if s.Namespace != "" {
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
	} else {
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
	return columns(o.Out, heading, rows)
}

// unread prints what could not be read, and the right that it takes.
func (o *options) unread(list []inspect.Unread) {
	for _, u := range list {
		fmt.Fprintf(o.ErrOut, "not read: %s; it takes the right to %s\n", u.Kind, u.Right)
	}
}

package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// row is one of the table in docs/cinder-reference.md.
type row struct {
	answer, outcome string
	calls           []string
}

func errorTable(t *testing.T) []row {
	t.Helper()
	data, err := os.ReadFile("../../docs/cinder-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	_, table, _ := strings.Cut(string(data), "\n## What becomes of errors\n")
	table, _, _ = strings.Cut(table, "\n### What is not an answer\n")
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.Contains(cells[1], "---") || strings.TrimSpace(cells[1]) == "Answer" {
			continue
		}
		r := row{answer: strings.TrimSpace(cells[1]), outcome: strings.TrimSpace(cells[3])}
		for _, call := range strings.Split(cells[2], ",") {
			r.calls = append(r.calls, strings.TrimSpace(call))
		}
		rows = append(rows, r)
	}
	return rows
}

// ops are the calls as the fake names them.
var ops = map[string]string{
	"log in": "POST /v3/auth/tokens", "find": "GET /volumes/detail", "create": "POST /volumes", "reserve": "os-reserve",
	"initialize_connection": "os-initialize_connection", "attach": "os-attach", "extend": "os-extend",
	"attachments": "GET /attachments/detail", "delete attachment": "DELETE /attachments/{id}",
	"create attachment": "POST /attachments", "update attachment": "PUT /attachments/{id}", "complete attachment": "os-complete",
	"terminate_connection": "os-terminate_connection", "detach": "os-detach", "unreserve": "os-unreserve", "delete": "DELETE /volumes/{id}",
	"find snapshots": "GET /snapshots/detail", "create snapshot": "POST /snapshots", "delete snapshot": "DELETE /snapshots/{id}",
}

var (
	outcomes = map[int]string{0: "success", 64: "refusal", 1: "retry", 75: "retry"}
	recorded = regexp.MustCompile("^`([a-z]+)/(.+)` \\((\\d+)\\)$")
	made     = regexp.MustCompile(`^(\d+) in (JSON|HTML)$`)
)

func (r row) fault(t *testing.T, call string) fake.Fault {
	t.Helper()
	fault := fake.On(ops[call])
	if strings.HasPrefix(call, "find") || call == "log in" || strings.Contains(r.answer, "(401)") || call == "delete" && strings.Contains(r.answer, "(400)") {
		fault = fault.Always() // it is tried more than once
	}
	if m := recorded.FindStringSubmatch(r.answer); m != nil {
		all := fake.Recorded(t, "../../test/cinder/recordings", m[1])
		i := slices.IndexFunc(all, func(x fake.Exchange) bool { return x.Name == m[2] })
		if i < 0 || strconv.Itoa(all[i].Status) != m[3] {
			t.Fatalf("%s was not recorded", r.answer)
		}
		return fault.Answer(all[i].Status, "application/json", asJSON(t, all[i].Answer))
	}
	if m := made.FindStringSubmatch(r.answer); m != nil {
		status, _ := strconv.Atoi(m[1])
		if m[2] == "HTML" {
			return fault.HTML(status)
		}
		return fault.Refuse(status, "on a bad day\nTraceback (most recent call last):")
	}
	switch r.answer {
	case "closed connection":
		return fault.Close()
	case "half an answer":
		return fault.Truncate()
	case "no answer":
		return fault.Hang()
	}
	t.Fatalf("what answer is %q?", r.answer)
	return fault
}

func TestErrorTable(t *testing.T) {
	t.Parallel()
	rows := errorTable(t)
	if len(rows) < 30 {
		t.Fatalf("the table has %d rows", len(rows))
	}
	for _, r := range rows {
		for _, call := range r.calls {
			t.Run(r.answer+" to "+call, func(t *testing.T) {
				t.Parallel()
				if ops[call] == "" {
					t.Fatalf("what call is %q?", call)
				}
				tryRow(t, r, call)
			})
		}
	}
}

func tryRow(t *testing.T, r row, call string) {
	options := []fake.Option{fake.WithPace(0)}
	keystone := call == "log in" || strings.Contains(r.answer, "(401)")
	if keystone {
		options = append(options, fake.WithKeystone())
	}
	s := newStage(t, options...)
	if keystone {
		s.useKeystone()
	}
	if r.answer == "no answer" {
		s.asking(func(r *sdk.Request) { r.TimeoutSeconds = 1 })
	}
	run, expanding := s.provision, call == "extend"
	attaching := slices.Contains([]string{"create attachment", "update attachment", "complete attachment"}, call)
	snapshots := strings.Contains(call, "snapshot")
	deleting := slices.Contains([]string{"terminate_connection", "detach", "unreserve", "delete", "attachments", "delete attachment"}, call)
	switch {
	case deleting:
		s.prepareDelete(t, call)
		run = s.delete
	case snapshots:
		s.provision(t.Context()).want(t, 0, "")
		if run = s.snapshot; call == "delete snapshot" {
			s.snapshot(t.Context()).want(t, 0, "")
			run = s.deleteSnapshot
		}
	case attaching:
		s.with(map[string]string{"initiatorMode": "attach"}).provision(t.Context()).want(t, 0, "")
		run = s.attach
	case expanding:
		s.provision(t.Context()).want(t, 0, "")
		run = func(ctx context.Context) result { return s.expand(ctx, 20) }
	}
	armed := s.cinder.Fault(r.fault(t, call))
	got := run(t.Context())
	if armed.Fired() == 0 {
		t.Fatalf("the call was not made:\n%s", s.cinder.Calls())
	}
	switch outcome := outcomes[got.code]; {
	case outcome != r.outcome:
		t.Fatalf("ended with %d, not a %s: %s\n%s", got.code, r.outcome, got.message, got.log)
	case outcome == "refusal" && !deleting && !expanding && !snapshots && !attaching:
		s.wantNothing()
	case outcome == "success":
		s.wantNothing()
	}
	if strings.Contains(got.message, "Traceback") || strings.Contains(got.message, "<") {
		t.Errorf("message %q", got.message)
	}
	armed.Remove()
	s.change = nil
	// Whatever it was, once it is over the next run succeeds.
	run(t.Context()).want(t, 0, "")
	switch {
	case deleting:
		s.wantNothing()
	case attaching:
		s.wantNodes("node-a")
	default:
		s.wantOne()
	}
}

func (s *stage) prepareDelete(t *testing.T, call string) {
	s.provision(t.Context()).want(t, 0, "")
	if call == "attachments" || call == "delete attachment" {
		s.cinder.BeginAttach(name)
	}
	if call == "unreserve" {
		// A provision that died before it attached.
		v := s.cinder.Volume(name)
		s.cinder.SetStatus(name, "available")
		s.undo(t.Context()).want(t, 0, "")
		s.cinder.AddVolume(fake.Volume{Name: name, Status: "attaching", Metadata: v.Metadata, Project: v.Project})
	}
}

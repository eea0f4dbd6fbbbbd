package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// tally is how much there was of each thing.
type tally map[string]float64

var (
	// oneOfOurs is a count of the dispatcher's requests, by what they were: "create-pods", "patch-pods", "get" ...
	oneOfOurs = regexp.MustCompile(`^apiserver_flowcontrol_dispatched_requests_total\{flow_schema="` + schemaPrefix + `([^"]+)".*} (.+)$`)
	// oneOfAll is one of everybody's requests, by dry run, resource, subresource and verb.
	oneOfAll = regexp.MustCompile(`^apiserver_request_total\{.*dry_run="([^"]*)".*` +
		`resource="([^"]+)".*subresource="([^"]*)",verb="([^"]+)".*} (.+)$`)
)

// requests counts the dispatcher's, and everybody's. It reads the API server's metrics. Dry runs write nothing and do
// not count. They are the dispatcher's probes of the admission policies. FlowSchemas do not tell them apart, and so
// those that are sent as the dispatcher, which create pods, are subtracted. The others are sent as another account.
func (p *plane) requests(ctx context.Context) (ours, everybodys tally, err error) {
	text, err := p.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("read the API server's metrics: %w", err)
	}

	ours, everybodys = tally{}, tally{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if m := oneOfOurs.FindStringSubmatch(lines.Text()); m != nil {
			err = ours.add(m[1], m[2])
		} else if m := oneOfAll.FindStringSubmatch(lines.Text()); m != nil {
			dryRun, resource, subresource, verb, count := m[1], m[2], m[3], m[4], m[5]
			what := strings.TrimSuffix(strings.ToLower(verb)+"-"+resource+"/"+subresource, "/")
			switch {
			case dryRun == "":
				err = everybodys.add(what, count)
			case what == "post-pods":
				err = ours.add("create-pods", "-"+count)
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the API server's metrics: %w", err)
		}
	}

	return ours, everybodys, nil
}

func (t tally) add(what, count string) error {
	value, err := strconv.ParseFloat(count, 64)
	t[what] += value
	return err
}

func (t tally) since(before tally) tally {
	difference := tally{}
	for what, count := range t {
		if d := count - before[what]; d > 0 {
			difference[what] = d
		}
	}
	return difference
}

// writes are all requests that change something, but for the Lease, which is renewed by time and not by claims.
func writes(requests tally) float64 {
	sum := 0.0
	for what, count := range requests {
		if what != "get" && what != "list" && what != "watch" && !strings.HasSuffix(what, "-leases") {
			sum += count
		}
	}
	return sum
}

// per is the text of all counts, divided by n, but for what hardly counts.
func (t tally) per(n int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		if t[what]/float64(n) < 0.01 {
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.2f", what, t[what]/float64(n)))
	}
	return strings.Join(parts, ", ")
}

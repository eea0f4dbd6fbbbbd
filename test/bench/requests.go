package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// tally is how much there was of each thing.
type tally map[string]float64

// requests counts the dispatcher's by what they were: "create-pods", "patch-pods", "get" ... It reads the API server's
// metrics.
func (p *plane) requests(ctx context.Context) (tally, error) {
	text, err := p.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	r := tally{}
	const begin = `apiserver_flowcontrol_dispatched_requests_total{flow_schema="` + schemaPrefix
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), begin)
		if !ok {
			continue
		}
		what, _, _ := strings.Cut(rest, `"`)
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("read the API server's metrics: %w", err)
		}
		r[what] += value
	}
	return r, nil
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

// per is the text of all counts, divided by n.
func (t tally) per(n int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", what, t[what]/float64(n)))
	}
	return strings.Join(parts, ", ")
}

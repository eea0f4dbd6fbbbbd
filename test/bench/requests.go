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

// requests counts the dispatcher's requests by what they were: "create-pods", "patch-pods", "get" ...
type requests map[string]float64

// requests reads the API server's metrics.
func (p *plane) requests(ctx context.Context) (requests, error) {
	text, err := p.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the API server's metrics: %w", err)
	}
	r := requests{}
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

func (r requests) since(before requests) requests {
	difference := requests{}
	for what, count := range r {
		if d := count - before[what]; d > 0 {
			difference[what] = d
		}
	}
	return difference
}

// writes are all that change something, but for the Lease, which is renewed by time and not by claims.
func (r requests) writes() float64 {
	sum := 0.0
	for what, count := range r {
		if what != "get" && what != "list" && what != "watch" && !strings.HasSuffix(what, "-leases") {
			sum += count
		}
	}
	return sum
}

// per is the text of all counts, divided by n.
func (r requests) per(n int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(r)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", what, r[what]/float64(n)))
	}
	return strings.Join(parts, ", ")
}

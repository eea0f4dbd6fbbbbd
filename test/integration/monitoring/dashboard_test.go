//go:build integration

package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scrapes is Prometheus' interval. The run is short, so that it stands for scraped, which is the ServiceMonitor's.
const scrapes, scraped = time.Second, 30 * time.Second

// dashboard is a dashboard of Grafana, as far as it is read here.
type dashboard struct {
	Title      string `json:"title"`
	Templating struct {
		List []struct {
			Name     string          `json:"name"`
			Type     string          `json:"type"`
			Query    json.RawMessage `json:"query"`
			AllValue string          `json:"allValue"`
		} `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type panel struct {
	Title       string `json:"title"`
	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
	Targets []struct {
		Expr         string `json:"expr"`
		LegendFormat string `json:"legendFormat"`
		Interval     string `json:"interval"`
	} `json:"targets"`
}

// line is a line of a panel, with the values that Prometheus answered.
type line struct {
	legend string
	values []float64
}

// seen is what the run with faults has to bring into each panel: lines that rise above 0. All other lines are 0.
var seen = map[string][]string{
	"Leaders":          {""},
	"Policies missing": {""},
	"Oldest claim":     {""},
	"Claims that wait": {""},
	"Deletions held":   {""},
	"Old ConfigMaps":   {""},
	"What waits": {"silver provision Blocked", "silver provision Waiting", "nfs provision Failed", "archive provision Waiting", "cinder provision Running",
		"gold provision Starting", "silver delete Held", "nfs delete Held"},
	"The oldest wait":                       {"silver provision", "silver delete", "nfs provision", "archive provision", "cinder provision", "gold provision"},
	"Attempts that ended":                   {"silver provision Succeeded ", "silver delete Succeeded ", "nfs provision Failed ProvisionerFailed", "cinder provision Failed ProvisionerDeadlineExceeded"},
	"Warnings":                              {"silver ClaimRefused", "nfs ProvisionerFailed", "cinder ProvisionerDeadlineExceeded", "gold ProvisionerImagePullFailed"},
	"Held by reason":                        {"nfs VolumeRecordInvalid", "silver DeletionStopped", "all stopped"},
	"From claim to bound, or to a snapshot": {"silver provision 50 %", "silver provision 95 %", "archive provision 50 %", "nfs provision 95 %"},
	"From release to gone":                  {"silver delete 50 %", "silver delete 95 %"},
	"How long pods take":                    {"provision Succeeded", "provision Failed", "delete Succeeded"},
	"Attempts that began":                   {"silver provision", "silver delete", "nfs provision", "archive provision", "cinder provision", "gold provision"},
	"Pods":                                  {"silver", "nfs", "archive", "cinder", "gold"},
}

// quiet are panels that the run leaves at 0, and why.
var quiet = map[string]string{
	"Orphans":     "the first audit comes five minutes after the start",
	"Queue depth": "a scrape would have to meet one of the few claims on its way",
}

// TestDashboard lets a real Prometheus collect from the dispatcher's own program while storage fails and hangs, and asks each query of
// each panel, as Grafana does.
func TestDashboard(t *testing.T) {
	var d dashboard
	text, err := os.ReadFile(filepath.Join(root, "deploy/monitoring/dashboard.json"))
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		t.Fatal(err)
	}

	run, p := startRun(t)
	// Grafana takes as many steps as a panel has pixels, but none shorter than a scrape: here they are that short.
	g := grafana{prometheus: p, from: time.Now(), step: scrapes}
	run.playFor(length)
	// A busy machine shows some things late.
	var unknown []string
	for range 20 {
		g.to = time.Now()
		unknown = g.variables(t, d)

		if len(unknown) == 0 && g.seesAll(t, d.Panels) {
			break
		}

		run.playFor(length / 10)
	}

	for _, lack := range unknown {
		t.Error(lack)
	}

	for _, p := range d.Panels {
		t.Run(p.Title, func(t *testing.T) {
			lines, silent := g.look(t, p)
			for _, query := range silent {
				t.Errorf("no series: %s", query)
			}

			compare(t, p.Title, lines)
		})
	}
	for _, title := range slices.AppendSeq(slices.Collect(maps.Keys(seen)), maps.Keys(quiet)) {
		if !slices.ContainsFunc(d.Panels, func(p panel) bool { return p.Title == title }) {
			t.Errorf("%q is no panel", title)
		}
	}
}

// grafana asks as Grafana does.
type grafana struct {
	prometheus prometheus
	from, to   time.Time
	step       time.Duration
	values     *strings.Replacer
}

// variables puts "All" in the place of each variable. unknown says which variables have other values than they have to.
func (g *grafana) variables(t *testing.T, d dashboard) (unknown []string) {
	t.Helper()
	var replace []string
	want := map[string][]string{"namespace": {"flex-system"}, "class": {"archive", "cinder", "gold", "nfs", "silver"}}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var q struct{ Query string }
		if err := json.Unmarshal(v.Query, &q); err != nil {
			t.Fatal(err)
		}
		query := strings.NewReplacer(replace...).Replace(q.Query)
		parts := regexp.MustCompile(`^label_values\((.+), (\w+)\)$`).FindStringSubmatch(query)
		if parts == nil {
			t.Fatalf("variable %s: %q is no query that this test understands", v.Name, query)
		}
		got := g.prometheus.labelValues(t, parts[1], parts[2], g.from, g.to)
		if !slices.Equal(got, want[v.Name]) {
			unknown = append(unknown, fmt.Sprintf("variable %s: %s has values %q, want %q", v.Name, query, got, want[v.Name]))
		}
		replace = append(replace, "$"+v.Name, v.AllValue)
	}
	g.values = strings.NewReplacer(replace...)

	return unknown
}

// seesAll reports whether each query of each panel has series, and each panel the lines that it has to have.
func (g *grafana) seesAll(t *testing.T, panels []panel) bool {
	t.Helper()

	return !slices.ContainsFunc(panels, func(p panel) bool {
		lines, silent := g.look(t, p)
		return len(silent)+len(lacking(p.Title, lines)) > 0
	})
}

// look asks the panel's queries. silent are those without a series.
func (g *grafana) look(t *testing.T, p panel) (lines []line, silent []string) {
	t.Helper()
	legends := map[string]bool{}
	for _, target := range p.Targets {
		unit := "short"
		if strings.Contains(target.Expr, "_seconds") {
			unit = "s"
		}
		if p.FieldConfig.Defaults.Unit != unit {
			t.Errorf("the unit is %q, want %s for %s", p.FieldConfig.Defaults.Unit, unit, target.Expr)
		}
		query := g.values.Replace(target.Expr)
		if strings.Contains(query, "interval") {
			query = g.intervals(t, target.Interval).Replace(query)
		}
		if strings.Contains(query, "$") {
			t.Fatalf("a variable is left in %s", query)
		}
		result := g.prometheus.queryRange(t, query, g.from, g.to, g.step)
		if len(result) == 0 {
			silent = append(silent, query)
		}
		for _, r := range result {
			legend, labels := target.LegendFormat, 0
			for name, value := range r.Metric {
				if strings.Contains(legend, "{{"+name+"}}") {
					labels++
				}
				legend = strings.ReplaceAll(legend, "{{"+name+"}}", value)
			}
			legend = regexp.MustCompile(`{{\w+}}`).ReplaceAllString(legend, "") // an empty label is none, to Prometheus
			if labels != len(r.Metric) {
				t.Errorf("the legend %q leaves out a label of %v", target.LegendFormat, r.Metric)
			}
			if legends[legend] {
				t.Errorf("two lines have the legend %q", legend)
			}
			legends[legend] = true
			lines = append(lines, line{legend, r.numbers(t)})
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.legend, b.legend) })
	return lines, silent
}

// intervals are Grafana's, by the query's "Min step": $__rate_interval is at least four times that, else four times what the data source
// has as its scrape interval, which nobody sets.
func (g *grafana) intervals(t *testing.T, minStep string) *strings.Replacer {
	t.Helper()
	least, err := time.ParseDuration(minStep)
	if err != nil || least < scraped {
		t.Fatalf("the interval is %q: want the ServiceMonitor's %s or more", minStep, scraped)
	}
	least /= scraped / scrapes
	return strings.NewReplacer("$__interval", g.step.String(), "$__rate_interval", max(g.step+least, 4*least).String())
}

// compare compares the lines of a panel with what has to be seen in it.
func compare(t *testing.T, title string, lines []line) {
	t.Helper()
	_, known := seen[title]
	if _, isQuiet := quiet[title]; known == isQuiet {
		t.Errorf("the panel has to be among those in which something is seen, or among the quiet ones")
	}

	var points []string
	for _, l := range lines {
		if len(l.values) > 0 {
			points = append(points, fmt.Sprintf("%q up to %.3g", l.legend, slices.Max(l.values)))
		}
	}

	t.Logf("%d lines: %s", len(lines), strings.Join(points, ", "))
	if len(points) == 0 {
		t.Error("no line has a point")
	}

	for _, legend := range lacking(title, lines) {
		t.Errorf("no line %q is above 0", legend)
	}
}

// lacking are the lines of a panel that have to rise above 0, and do not.
func lacking(title string, lines []line) []string {
	rises := func(l line) bool { return len(l.values) > 0 && slices.Max(l.values) > 0 }

	return slices.DeleteFunc(slices.Clone(seen[title]), func(legend string) bool {
		return slices.ContainsFunc(lines, func(l line) bool { return l.legend == legend && rises(l) })
	})
}

// numbers are the values. Where one is no number, Grafana leaves a gap.
func (r result) numbers(t *testing.T) (numbers []float64) {
	t.Helper()
	for _, value := range r.Values {
		text, isText := value[1].(string)
		number, err := strconv.ParseFloat(text, 64)
		if !isText || err != nil {
			t.Fatalf("point %v: %v", value, err)
		}
		if !math.IsNaN(number) && !math.IsInf(number, 0) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}

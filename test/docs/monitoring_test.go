package docs

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAlerts: docs/events.md has a section for each alert, and each alert names its own.
func TestAlerts(t *testing.T) {
	var alerts, sections []string
	text := read(t, "deploy/monitoring/alerts.yaml")
	for _, rule := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(text, -1) {
		alerts = append(alerts, rule[1])
		if link := "runbook: docs/events.md#" + strings.ToLower(rule[1]) + "\n"; !strings.Contains(text, link) {
			t.Errorf("alert %s does not have %s", rule[1], link)
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^### (Flex\w+)$`).FindAllStringSubmatch(read(t, "docs/events.md"), -1) {
		sections = append(sections, section[1])
	}
	same(t, "docs/events.md", sections, alerts)
}

// TestMonitoredMetrics: what alerts and the dashboard ask for are metrics of docs/metrics.md, and each of those is asked for.
func TestMonitoredMetrics(t *testing.T) {
	var asked []string
	known := column(table(t, read(t, "docs/metrics.md")), 0)
	for _, file := range []string{"deploy/monitoring/alerts.yaml", "deploy/monitoring/dashboard.json"} {
		for _, name := range regexp.MustCompile(`flex_provisioner_\w+`).FindAllString(read(t, file), -1) {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, suffix)
			}
			if !slices.Contains(asked, name) {
				asked = append(asked, name)
			}
		}
	}
	same(t, "docs/metrics.md", known, asked)
}

// TestDashboardLabels: queries of the dashboard select and group by labels that docs/metrics.md says the metric has. Panels have their
// own place, and docs/events.md names those that there are.
func TestDashboardLabels(t *testing.T) {
	labels := map[string][]string{}
	for _, row := range table(t, read(t, "docs/metrics.md")) {
		labels[spans(row[0])[0]] = strings.Split(row[2], ", ")
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/monitoring/dashboard.json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	selected, grouped := regexp.MustCompile(`(\w+)[!=]~?"`), regexp.MustCompile(`by \(([^)]*)\)`)
	ids, titles, cells := map[int]bool{}, map[string]bool{}, map[[2]int]string{}
	for _, p := range dashboard.Panels {
		if ids[p.ID] || titles[p.Title] {
			t.Errorf("panel %s: another has its id %d, or its title", p.Title, p.ID)
		}
		ids[p.ID], titles[p.Title] = true, true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %s lies on %q, or beyond the 24 columns", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			metric := regexp.MustCompile(`flex_provisioner_\w+`).FindString(target.Expr)
			allowed := append([]string{"namespace"}, labels[strings.TrimSuffix(metric, "_bucket")]...)
			if strings.HasSuffix(metric, "_bucket") {
				allowed = append(allowed, "le")
			}
			var used []string
			for _, match := range selected.FindAllStringSubmatch(target.Expr, -1) {
				used = append(used, match[1])
			}
			for _, match := range grouped.FindAllStringSubmatch(target.Expr, -1) {
				used = append(used, strings.Split(match[1], ", ")...)
			}
			for _, label := range used {
				if !slices.Contains(allowed, label) {
					t.Errorf("panel %s: %s has no label %s", p.Title, metric, label)
				}
			}
			if len(used) == 0 || !slices.Contains(used, "namespace") {
				t.Errorf("panel %s does not select its installation: %s", p.Title, target.Expr)
			}
		}
	}
	for _, match := range regexp.MustCompile(`panel "([^"]+)"`).FindAllStringSubmatch(read(t, "docs/events.md"), -1) {
		if !titles[match[1]] {
			t.Errorf("docs/events.md names the panel %q, which does not exist", match[1])
		}
	}
}

package docs

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRunbooks: docs/runbooks.md has a section for each alert, and each alert names its own.
func TestRunbooks(t *testing.T) {
	var alerts, sections []string
	text := read(t, "deploy/monitoring/alerts.yaml")
	for _, rule := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(text, -1) {
		alerts = append(alerts, rule[1])
		if link := "runbook: docs/runbooks.md#" + strings.ToLower(rule[1]) + "\n"; !strings.Contains(text, link) {
			t.Errorf("alert %s does not have %s", rule[1], link)
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(read(t, "docs/runbooks.md"), -1) {
		sections = append(sections, section[1])
	}
	same(t, "docs/runbooks.md", sections, alerts)
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

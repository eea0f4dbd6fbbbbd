package docs

import (
	"regexp"
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

package docs

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestChartOptions: the chart has each option of the dispatcher as a value, but for those that other values say.
func TestChartOptions(t *testing.T) {
	var schema struct {
		Properties struct {
			Options struct{ Properties map[string]any }
		}
	}
	if err := json.Unmarshal([]byte(read(t, "deploy/helm/values.schema.json")), &schema); err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"flexctl-image", "provisioner-name", "namespace", "lease-namespace", "help", "version"}
	var options, values []string
	for _, match := range regexp.MustCompile(`(?m)^ +(?:-v, |-h, )?--([a-z-]+)`).FindAllStringSubmatch(section(t, "docs/operations.md", "## Options"), -1) {
		if !slices.Contains(elsewhere, match[1]) {
			options = append(options, match[1])
		}
	}
	for value := range schema.Properties.Options.Properties {
		values = append(values, regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(value, func(c string) string { return "-" + strings.ToLower(c) }))
	}
	same(t, "deploy/helm/values.schema.json", values, options)
}

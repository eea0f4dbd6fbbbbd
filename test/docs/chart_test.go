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

// TestInstallCommands: README.md has the three commands that test/install.sh times.
func TestInstallCommands(t *testing.T) {
	var timed []string
	_, body, _ := strings.Cut(read(t, "test/install.sh"), "\n\t# README.md has these three.\n")
	for line := range strings.Lines(body) {
		command, is := strings.CutPrefix(line, "\trun kubectl ")
		if !is {
			break
		}
		command, _, _ = strings.Cut(strings.NewReplacer(`"$RELEASE/`, "", `"`, "").Replace(command), " |")
		timed = append(timed, "    kubectl "+strings.TrimSpace(command)+"\n")
	}
	block := strings.Join(timed, "")
	if len(timed) != 3 || !strings.Contains(read(t, "README.md"), "\n\n"+block+"\n") {
		t.Errorf("README.md does not have, as a block of its own,\n%s", block)
	}
}

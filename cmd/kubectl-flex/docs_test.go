package main

import (
	"os"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestDocs: docs/kubectl-flex.md has each command with its flags.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubectl-flex.md")
	if err != nil {
		t.Fatal(err)
	}
	commands := 0
	for _, c := range newCommand("kubectl flex", genericiooptions.IOStreams{}).Commands() {
		commands++
		row := ""
		for line := range strings.Lines(string(text)) {
			if cut, ok := strings.CutPrefix(line, "| `"+c.Name()); ok && strings.ContainsAny(cut[:1], " `") {
				row = line
			}
		}
		if row == "" {
			t.Errorf("docs/kubectl-flex.md lacks %s", c.Name())
		}
		for _, flag := range []string{"watch", "attempt", "reason", "claim", "offline"} {
			if c.Flags().Lookup(flag) != nil && !strings.Contains(row, "--"+flag) {
				t.Errorf("docs/kubectl-flex.md lacks --%s of %s", flag, c.Name())
			}
		}
	}
	if commands != 16 {
		t.Errorf("there are %d commands; name them in the help and here", commands)
	}
}

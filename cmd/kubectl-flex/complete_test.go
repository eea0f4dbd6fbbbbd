package main

import (
	"strings"
	"testing"
)

// TestCompletion: the scripts ask the program what there is to complete.
func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script, code := newWorld(t).run("", "completion", shell)
		if code != 0 || !strings.Contains(script, "kubectl-flex") || !strings.Contains(script, "__complete") {
			t.Errorf("completion %s: exit code %d:\n%.200s", shell, code, script)
		}
	}
}

package inspect

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
)

// TestGoOn: a script of one line ends with it, and there are several ways to end others where a command fails.
func TestGoOn(t *testing.T) {
	for script, want := range map[string]bool{
		"":                                    false,
		"rm -rf /export/x\n":                  false,
		"cd /export\nmkdir x":                 true,
		"set -u\ncd /export\nmkdir x":         true,
		"# set -e\ncd /export\nmkdir x":       true,
		"echo offset -e\nmkdir x":             true,
		"set -e\nmkdir x":                     false,
		"#!/bin/sh\n  set -eu\nmkdir x":       false,
		"set -uxe\nmkdir x":                   false,
		"set -u -e\nmkdir x":                  false,
		"set -euo pipefail\nmkdir x":          false,
		"set -o errexit\nmkdir x":             false,
		"set -uo errexit\nmkdir x":            false,
		"cd /export && set -e\nmkdir x":       false,
		"echo one\necho two # set -e is best": true,
	} {
		got := strings.Join(goOn(&configmaps.Config{Provision: "true", Delete: "true", Expand: script}), " ")
		if (got == "expand") != want || !want && got != "" {
			t.Errorf("%q: %q, want %t", script, got, want)
		}
	}
}

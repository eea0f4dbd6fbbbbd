package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/bare"
)

// TestRequireMark goes through the life of mounted storage, and has its mount point empty in between.
func TestRequireMark(t *testing.T) {
	dir := t.TempDir()
	mark := filepath.Join(dir, ".mark")
	for _, step := range []struct {
		name      string
		operation contract.Operation
		undo      bool
		code      int
		there     bool
	}{
		{"an undo before the first volume", contract.Delete, true, contract.ExitDone, false},
		{"a delete before the first volume", contract.Delete, false, contract.ExitTryAgain, false},
		{"provision", contract.Provision, false, contract.ExitDone, true},
		{"provision again", contract.Provision, false, contract.ExitDone, true},
		{"expand", contract.Expand, false, contract.ExitDone, true},
		{"delete", contract.Delete, false, contract.ExitDone, true},
		{"undo", contract.Delete, true, contract.ExitDone, true},
	} {
		code := bare.ExitCode(requireMark(mark, step.operation, step.undo))
		_, err := os.Stat(mark)
		if code != step.code || (err == nil) != step.there {
			t.Errorf("%s: exit code %d, want %d; the mark is there: %t, want %t", step.name, code, step.code, err == nil, step.there)
		}
	}
	if err := os.Remove(mark); err != nil {
		t.Fatal(err)
	}
	for operation, want := range map[contract.Operation]int{contract.Delete: contract.ExitTryAgain, contract.Expand: contract.ExitTryAgain, contract.List: contract.ExitNotHere} {
		if code := bare.ExitCode(requireMark(mark, operation, false)); code != want {
			t.Errorf("%s at an empty mount point: exit code %d, want %d", operation, code, want)
		}
	}
}

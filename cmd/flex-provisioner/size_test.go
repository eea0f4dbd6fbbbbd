package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxSize is in bytes. What is in the program is in its memory, too.
const maxSize = 42_000_000

// TestSize: the linker leaves out what nobody calls. It cannot where something calls methods by any name, as a template
// does that is executed.
func TestSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flex-provisioner")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}

	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}

	if size := info.Size(); size > maxSize {
		t.Errorf("flex-provisioner has %d bytes, at most %d are allowed: go build -ldflags=-dumpdep names who calls what by "+
			"<ReflectMethod>", size, maxSize)
	}
}

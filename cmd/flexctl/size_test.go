package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// maxSize is in bytes. Every pod that runs an inline script has flexctl, as an image that its node pulls or as a copy.
const maxSize = 8_120_000

// TestSize: flexctl is small. Kubernetes' types or its client alone are more than that: see package bare.
func TestSize(t *testing.T) {
	file := filepath.Join(t.TempDir(), "flexctl")
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
		t.Errorf("flexctl has %d bytes, at most %d are allowed; go list -deps ./cmd/flexctl tells what came with it", size, maxSize)
	}
}

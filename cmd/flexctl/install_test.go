package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestInstall(t *testing.T) {
	directory := t.TempDir()
	// Twice: the pod's init container may be started again.
	for range 2 {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), []string{"install", directory}, streams{nil, &stdout, &stderr}); code != 0 {
			t.Fatalf("exit code %d: %s", code, stderr.String())
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(directory, "flexctl"))
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy differs, or %v", err)
	}
	files, err := os.ReadDir(directory)
	if err != nil || len(files) != 1 {
		t.Errorf("the directory holds %v, %v; want flexctl alone", files, err)
	}
	info, err := os.Stat(filepath.Join(directory, "flexctl"))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v; want 0755", info.Mode(), err)
	}
}

//go:build conformance

package authors

import (
	"path/filepath"
	"testing"
)

// TestConformance: the templates keep the whole contract as they are. The one in Python is tried as its image, with
// Debian's Python.
func TestConformance(t *testing.T) {
	mkimage, err := filepath.Abs("../../bin/mkimage")
	if err != nil {
		t.Fatal(err)
	}
	for _, language := range []string{"shell", "go", "python"} {
		t.Run(language, func(t *testing.T) {
			subject := written(t, language)
			if language == "python" {
				run(t, ".", mkimage, "build", "-o", "disks.tar", "disks/image.yaml")
				subject = "disks.tar"
			}
			args := []string{"kubectl-flex", "conformance", subject, "--expandable", "--storage", "/export",
				"--property", "server=10.0.0.1", "--property", "export=/srv/nfs"}
			if language != "shell" { // inline scripts cannot list
				args = append(args, "--listable")
			}
			run(t, ".", args...)
		})
	}
}

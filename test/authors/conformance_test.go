//go:build conformance

package authors

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestConformance: the templates keep the whole contract as they are, and so do the images that their Dockerfiles make.
// The script in Python is tried as its image alone, with Debian's Python.
func TestConformance(t *testing.T) {
	for _, language := range []string{"shell", "go", "python"} {
		t.Run(language, func(t *testing.T) {
			program, image := written(t, language), build(t, "disks")
			subjects := map[string][]string{"shell": {program, image}, "go": {image}, "python": {image}}
			for _, subject := range subjects[language] {
				args := []string{"kubectl-flex", "conformance", subject, "--expandable", "--storage", "/export",
					"--property", "server=10.0.0.1", "--property", "export=/srv/nfs"}
				if language != "shell" { // inline scripts cannot list
					args = append(args, "--listable")
				}
				run(t, ".", args...)
			}
		})
	}
}

// designScript makes directories of the server that the design's ConfigMap names.
const designScript = `#!/bin/sh
set -eu
flexctl require use-nfs-server --mark /export/.silver
dir=/export/$FLEX_PV_NAME
case $FLEX_OPERATION in
provision)
	mkdir -p "$dir"
	chmod 0777 "$dir"
	flexctl create-pv --nfs "$USE_NFS_SERVER:/srv/nfs/$FLEX_PV_NAME"
	;;
delete) rm -rf -- "$dir" ;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac
`

// TestDesign: the design's own kind of Dockerfile and its ConfigMap, as docs/from-the-design.md has both, make a
// provisioner.
func TestDesign(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(checkout, "docs/from-the-design.md"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("image", 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"image/Dockerfile":         block(t, string(page), "dockerfile"),
		"image/iscsi-provision.sh": designScript,
		"configmap.yaml":           block(t, string(page), "yaml"),
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	run(t, ".", "kubectl-flex", "conformance", "configmap.yaml", "--image", build(t, "image"), "--storage", "/export")
}

// TestBuildsAtOnce: of several builds of one image each waits for its turn.
func TestBuildsAtOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("image", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("image/Dockerfile", []byte("FROM scratch\nCOPY Dockerfile /\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	var builds sync.WaitGroup
	for range 4 {
		builds.Go(func() {
			out, err := exec.CommandContext(t.Context(), filepath.Join(checkout, "tools/image.sh"),
				"registry.invalid/authors/once:dev", "image.tar", "image").CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	builds.Wait()
}

// build builds an image of the folder's Dockerfile, and returns its archive.
func build(t *testing.T, folder string) (archive string) {
	t.Helper()
	archive, err := filepath.Abs("image.tar")
	if err != nil {
		t.Fatal(err)
	}
	run(t, ".", filepath.Join(checkout, "tools/image.sh"), "registry.invalid/authors/disks:dev", archive, folder)
	return archive
}

// block is the first block of a page in a language.
func block(t *testing.T, page, language string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "```"+language+"\n")
	text, _, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatalf("the page has no block of %s", language)
	}
	return text
}

//go:build conformance

package docs

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImagesCarryLicences: the images as `make images` leaves them have a text for each of their components, and security.md
// knows what is from Debian.
func TestImagesCarryLicences(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(root, "bin/images/*.tar"))
	if err != nil || len(archives) < 6 {
		t.Fatalf("%v, %v: run make images", archives, err)
	}
	debian := map[string][]string{}
	for _, archive := range archives {
		image := strings.TrimSuffix(filepath.Base(archive), ".tar")
		files := filesOf(t, archive)
		has := func(prefix string) bool {
			return slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(file, prefix) })
		}
		for _, component := range componentsOf(t, strings.TrimSuffix(archive, ".tar")+".cdx.json") {
			name, _, _ := strings.Cut(component, "@")
			var wanted []string
			switch {
			case name == "pkg:golang/stdlib":
				wanted = []string{"licenses/go/LICENSE"}
			case strings.HasPrefix(name, "pkg:golang/"):
				wanted = []string{"licenses/" + strings.TrimPrefix(name, "pkg:golang/") + "/"}
			case strings.HasPrefix(name, "pkg:deb/debian/"):
				name = strings.TrimPrefix(name, "pkg:deb/debian/")
				debian[name] = append(debian[name], image)
				wanted = []string{"usr/share/doc/" + name + "/copyright", "usr/share/doc/" + name + "/SOURCE"}
			}
			for _, prefix := range wanted {
				if !has(prefix) {
					t.Errorf("image %s has %s, but not %s", image, component, prefix)
				}
			}
		}
		if slices.Contains(debian["busybox-static"], image) && !has("usr/share/common-licenses/GPL-2") {
			t.Errorf("image %s has busybox without the text of GPL-2.0", image)
		}
	}
	var packages []string
	for _, row := range table(t, section(t, "docs/security.md", "### Licences")) {
		name := spans(row[0])[0]
		packages = append(packages, name)
		ours, _, _ := strings.Cut(row[1], ";") // after it are those of tests
		same(t, "docs/security.md, images with "+name, spans(ours), debian[name])
	}
	same(t, "docs/security.md, packages of Debian", packages, slices.Collect(maps.Keys(debian)))
}

// filesOf are the names in the one layer of an archive.
func filesOf(t *testing.T, archive string) []string {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for r := tar.NewReader(file); ; {
		header, err := r.Next()
		if err != nil {
			t.Fatalf("read %s: %v", archive, err)
		}
		if !strings.HasSuffix(header.Name, ".tar.gz") {
			continue
		}
		layer, err := gzip.NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		var files []string
		for r := tar.NewReader(layer); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				return files
			}
			if err != nil {
				t.Fatalf("read layer of %s: %v", archive, err)
			}
			files = append(files, header.Name)
		}
	}
}

// componentsOf are the package URLs in a list of components.
func componentsOf(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Components []struct {
			PURL string `json:"purl"`
		}
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	var components []string
	for _, c := range bom.Components {
		components = append(components, c.PURL)
	}
	if len(components) == 0 {
		t.Fatalf("%s has no components", name)
	}
	return components
}

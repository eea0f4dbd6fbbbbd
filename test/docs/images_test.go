//go:build conformance

package docs

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImagesCarryLicences: the images as `make images` leaves them have a text for each module of their programs and each
// of Debian's packages, and security.md knows what is from Debian.
func TestImagesCarryLicences(t *testing.T) {
	archives, err := filepath.Glob(filepath.Join(root, "bin/images/*.tar"))
	if err != nil || len(archives) < 6 {
		t.Fatalf("%v, %v: run make images", archives, err)
	}
	debian := map[string][]string{}
	for _, archive := range archives {
		image := strings.TrimSuffix(filepath.Base(archive), ".tar")
		files, programs := contentsOf(t, archive)
		wants := func(component, prefix string) {
			if !slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(file, prefix) }) {
				t.Errorf("image %s has %s, but not %s", image, component, prefix)
			}
		}
		if len(programs) == 0 {
			t.Errorf("image %s has no program in Go", image)
		}
		for _, program := range programs {
			wants("Go", "licenses/go/LICENSE")
			wants(program.Main.Path, "licenses/"+program.Main.Path+"/")
			for _, module := range program.Deps {
				wants(module.Path, "licenses/"+module.Path+"/")
			}
		}
		for _, file := range files {
			name, recorded := strings.CutPrefix(file, "var/lib/dpkg/status.d/")
			if !recorded || name == "" {
				continue
			}
			debian[name] = append(debian[name], image)
			wants(name, "usr/share/doc/"+name+"/copyright")
			wants(name, "etc/os-release") // without it, scanners do not know whose package it is
			if name == "busybox-static" {
				wants(name, "usr/share/common-licenses/GPL-2")
				wants(name, "usr/share/doc/libc6/copyright")
			}
		}
	}
	var packages []string
	for _, row := range table(t, section(t, "docs/security.md", "### Licences")) {
		ours, _, _ := strings.Cut(row[1], ";") // after it are those of tests
		for _, name := range spans(row[0]) {
			packages = append(packages, name)
			same(t, "docs/security.md, images with "+name, spans(ours), debian[name])
		}
	}
	same(t, "docs/security.md, packages of Debian", packages, slices.Collect(maps.Keys(debian)))
}

// contentsOf are the names in the layers of an archive, and what its programs in Go say of themselves.
func contentsOf(t *testing.T, archive string) (files []string, programs []*buildinfo.BuildInfo) {
	t.Helper()
	file, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	each(t, file, func(part *tar.Header, content io.Reader) {
		if part.Typeflag != tar.TypeReg || !strings.HasSuffix(part.Name, ".tar") {
			return
		}
		each(t, content, func(header *tar.Header, content io.Reader) {
			files = append(files, header.Name)
			data, err := io.ReadAll(content)
			if err != nil {
				t.Fatal(err)
			}
			program, err := buildinfo.Read(bytes.NewReader(data))
			if err == nil {
				programs = append(programs, program)
			}
		})
	})
	return files, programs
}

// each calls do for each part of a tar.
func each(t *testing.T, archive io.Reader, do func(*tar.Header, io.Reader)) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(header, r)
	}
}

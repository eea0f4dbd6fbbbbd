package main

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestNewOfRelease: a project that the program of a release writes names the release's images, and for its own a name
// to replace.
func TestNewOfRelease(t *testing.T) {
	for language, want := range map[string][]string{
		"go":     {"registry.example/shell:v1", "registry.invalid/flex-provisioner/disks:dev"},
		"python": {"registry.example/flexctl:v1", "registry.example/shell:v1", "registry.invalid/flex-provisioner/disks:dev"},
		"shell":  {"registry.example/shell:v1"},
	} {
		t.Run(language, func(t *testing.T) {
			p, err := newProject("disks", language, "../..")
			if err != nil {
				t.Fatal(err)
			}
			p.FlexctlImage, p.ShellImage = "registry.example/flexctl:v1", "registry.example/shell:v1"
			t.Chdir(t.TempDir())
			if err := writeProject(p, language); err != nil {
				t.Fatal(err)
			}

			if got := imagesIn(t, "disks"); !slices.Equal(got, want) {
				t.Errorf("images %q, want %q", got, want)
			}
		})
	}
}

// imagesIn are the images that files other than the README name.
func imagesIn(t *testing.T, folder string) []string {
	t.Helper()
	var images []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || name == "README.md" {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(folder), name)
		images = append(images, regexp.MustCompile(`registry\.[a-z/-]+:\w+`).FindAllString(string(text), -1)...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	slices.Sort(images)
	return slices.Compact(images)
}

// Package archive reads the archives that tests check.
package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"testing"
)

// Files are the files of a gzipped tar archive, by name.
func Files(t testing.TB, file string) map[string]string {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()

	unzipped, err := gzip.NewReader(opened)
	if err != nil {
		t.Fatal(err)
	}

	files := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}

		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}

		files[header.Name] = string(text)
	}
}

// Package golden compares what tests got with what they want, which stands in txtar archives: one file for many small
// cases. -update writes what they got.
package golden

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// Update is whether the tests write what they got.
var Update = flag.Bool("update", false, "write what the tests got as what they want")

// FS has the files of an archive.
func FS(t testing.TB, archive string) fs.FS {
	t.Helper()
	files, err := txtar.FS(read(t, archive))
	if err != nil {
		t.Fatalf("%s: %v", archive, err)
	}

	return files
}

// Compare wants got as the text of a file of an archive. An empty text has no file.
func Compare(t testing.TB, archive, name, got string) {
	t.Helper()
	all := read(t, archive)
	if *Update {
		write(t, archive, all, name, got)
		return
	}

	if want := text(all, name); got != want {
		t.Errorf("%s in %s (-update writes it)\n--- got\n%s--- want\n%s", name, archive, got, want)
	}
}

func read(t testing.TB, archive string) *txtar.Archive {
	t.Helper()
	all, err := txtar.ParseFile(archive)
	if *Update && errors.Is(err, fs.ErrNotExist) {
		return &txtar.Archive{}
	}

	if err != nil {
		t.Fatal(err)
	}

	return all
}

func text(all *txtar.Archive, name string) string {
	for _, file := range all.Files {
		if file.Name == name {
			return string(file.Data)
		}
	}

	return ""
}

func write(t testing.TB, archive string, all *txtar.Archive, name, got string) {
	t.Helper()
	all.Files = slices.DeleteFunc(all.Files, func(f txtar.File) bool { return f.Name == name })
	if got != "" {
		all.Files = append(all.Files, txtar.File{Name: name, Data: []byte(got)})
	}

	slices.SortFunc(all.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
	written := txtar.Format(all)
	if text(txtar.Parse(written), name) != got {
		t.Fatalf("%s has no newline at its end, or a line that looks like one of an archive:\n%s", name, got)
	}

	if err := os.WriteFile(archive, written, 0o644); err != nil {
		t.Fatal(err)
	}
}

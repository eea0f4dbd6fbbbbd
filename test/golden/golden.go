// Package golden compares what tests got with what they want, which stands in txtar archives: one file for many small
// cases. -update writes what they got.
package golden

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/util/diff"
)

// Update is whether the tests write what they got.
var Update = flag.Bool("update", false, "write what the tests got as what they want")

// archive is a file of this package's tests.
type archive struct {
	*txtar.Archive
	used map[string]bool
}

var (
	mutex    sync.Mutex
	archives map[string]*archive
)

// Main runs the tests of a package. After a run of all tests, it returns 1 if a file of an archive served none of them:
// such a file tests nothing.
func Main(m *testing.M) int {
	archives = map[string]*archive{}
	code := m.Run()
	if code != 0 || selected() {
		return code
	}

	for path, a := range archives {
		for _, file := range a.Files {
			if !a.used[file.Name] {
				fmt.Printf("FAIL: no test uses %s in %s\n", file.Name, path)
				code = 1
			}
		}
	}

	return code
}

// selected is whether the command line asks for some of the tests.
func selected() bool {
	return slices.ContainsFunc([]string{"run", "skip", "list", "fuzz"}, func(name string) bool {
		return flag.Lookup("test."+name).Value.String() != ""
	})
}

// FS has the files of an archive.
func FS(t testing.TB, path string) fs.FS {
	t.Helper()
	mutex.Lock()
	defer mutex.Unlock()
	a := read(t, path)
	files, err := txtar.FS(&txtar.Archive{Files: slices.Clone(a.Files)})
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}

	return used{files, a}
}

type used struct {
	fs.FS
	archive *archive
}

// Open implements fs.FS.
func (u used) Open(name string) (fs.File, error) {
	mutex.Lock()
	u.archive.used[name] = true
	mutex.Unlock()

	return u.FS.Open(name)
}

// ReadDir implements fs.ReadDirFS: to look for files uses none.
func (u used) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(u.FS, name) }

// Compare wants got as the text of a file of an archive. An empty text has no file.
func Compare(t testing.TB, path, name, got string) {
	t.Helper()
	mutex.Lock()
	defer mutex.Unlock()
	a := read(t, path)
	a.used[name] = true
	want := text(a.Archive, name)
	switch {
	case got == want:
	case *Update:
		a.write(t, path, name, got)
	default:
		changed := diff.Diff(strings.Split(want, "\n"), strings.Split(got, "\n"))
		t.Errorf("%s in %s: - is there, + came out; -update writes it\n%s", name, path, changed)
	}
}

func read(t testing.TB, path string) *archive {
	t.Helper()
	if archives == nil {
		t.Fatal("TestMain has to call golden.Main")
	}

	if a := archives[path]; a != nil {
		return a
	}

	parsed, err := txtar.ParseFile(path)
	if *Update && errors.Is(err, fs.ErrNotExist) {
		parsed, err = &txtar.Archive{}, nil
	}

	if err != nil {
		t.Fatal(err)
	}

	archives[path] = &archive{parsed, map[string]bool{}}

	return archives[path]
}

func text(all *txtar.Archive, name string) string {
	for _, file := range all.Files {
		if file.Name == name {
			return string(file.Data)
		}
	}

	return ""
}

func (a *archive) write(t testing.TB, path, name, got string) {
	t.Helper()
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == name })
	if got != "" {
		a.Files = append(a.Files, txtar.File{Name: name, Data: []byte(got)})
	}

	slices.SortFunc(a.Files, func(x, y txtar.File) int { return strings.Compare(x.Name, y.Name) })
	written := txtar.Format(a.Archive)
	if text(txtar.Parse(written), name) != got {
		t.Fatalf("%s has no newline at its end, or a line that looks like one of an archive:\n%s", name, got)
	}

	if err := os.WriteFile(path, written, 0o644); err != nil {
		t.Fatal(err)
	}
}

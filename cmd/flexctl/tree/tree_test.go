package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// fillTree makes one of each kind of entry.
func fillTree(t *testing.T, dir string) {
	t.Helper()
	old := time.Date(2020, 2, 3, 4, 5, 6, 0, time.UTC)
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t,
		os.MkdirAll(in("sub/empty"), 0o755),
		os.WriteFile(in("file"), []byte("text"), 0o640),
		os.WriteFile(in("-rf $(x)\nname"), nil, 0o600),
		os.Chmod(in("file"), 0o4750),
		os.Link(in("file"), in("sub/again")),
		os.Symlink("/etc/passwd", in("link")),
		os.Symlink("sub", in("dirlink")),
		unix.Mkfifo(in("fifo"), 0o620),
		unix.Mknod(in("socket"), unix.S_IFSOCK|0o600, 0),
		os.WriteFile(in("sparse"), []byte("begin"), 0o600),
		os.Truncate(in("sparse"), 64<<20),
		os.Chtimes(in("file"), old, old),
		os.Chmod(in("sub/empty"), 0o555),
		os.Chtimes(in("sub"), old, old),
	)
	file, err := os.OpenFile(in("sparse"), os.O_WRONLY, 0)
	must(t, err)
	defer file.Close()
	_, err = file.WriteAt([]byte("middle"), 32<<20)
	must(t, err)
	if os.Geteuid() == 0 {
		must(t, os.Lchown(in("link"), 1000, 1001), os.Chown(in("fifo"), 1000, 1001), os.Chown(in("sub"), 1000, 1001))
	}
	if err := unix.Setxattr(in("file"), "user.note", []byte("kept"), 0); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Fatal(err)
	}
}

// describe is all that a copy keeps.
func describe(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	inodes := map[uint64]string{}
	must(t, filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		var stat unix.Stat_t
		if err := errors.Join(err, unix.Lstat(name, &stat)); err != nil {
			return err
		}
		at, _ := filepath.Rel(dir, name)
		fmt.Fprintf(&text, "%q %o %d:%d %d", at, stat.Mode, stat.Uid, stat.Gid, stat.Mtim.Sec)
		switch stat.Mode & unix.S_IFMT {
		case unix.S_IFLNK:
			target, _ := os.Readlink(name)
			fmt.Fprintf(&text, " to %s", target)
		case unix.S_IFREG:
			data, _ := os.ReadFile(name)
			note := make([]byte, 10)
			n, _ := unix.Getxattr(name, "user.note", note)
			fmt.Fprintf(&text, " %d bytes %.5q %q, small %t", len(data), data, note[:max(n, 0)], stat.Blocks < 1024)
			if first := inodes[stat.Ino]; first != "" {
				fmt.Fprintf(&text, " is %s", first)
			}
			inodes[stat.Ino] = at
		}
		fmt.Fprintln(&text)
		return nil
	}))
	return text.String()
}

func TestCopy(t *testing.T) {
	parent := t.TempDir()
	from, to := filepath.Join(parent, "from"), filepath.Join(parent, "to")
	must(t, os.Mkdir(from, 0o751))
	fillTree(t, from)
	must(t, os.MkdirAll(filepath.Join(parent, ".to.copy-killed/half"), 0o755))
	must(t, Copy(from, to, true))
	if got, want := describe(t, to), describe(t, from); got != want {
		t.Errorf("the copy is\n%s\nwant\n%s", got, want)
	}
	must(t, os.WriteFile(filepath.Join(from, "file"), []byte("changed"), 0o600))
	must(t, Copy(from, to, true))
	if data, err := os.ReadFile(filepath.Join(to, "file")); string(data) != "text" {
		t.Errorf("after the second copy there is %q, %v", data, err)
	}
	if names := namesIn(t, parent); names != "from to" {
		t.Errorf("there are %s", names)
	}
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return strings.Join(names, " ")
}

// TestCopyFails: nothing is left of a copy that is not whole.
func TestCopyFails(t *testing.T) {
	parent := t.TempDir()
	from := filepath.Join(parent, "from")
	must(t, os.Mkdir(from, 0o755), os.WriteFile(filepath.Join(from, "file"), nil, 0o600))
	link := filepath.Join(parent, "link")
	must(t, os.Symlink(from, link))
	for name, c := range map[string]struct{ from, to, err string }{
		"nothing there":   {parent + "/none", parent + "/to", "open " + parent + "/none: no such file or directory"},
		"a link":          {link, parent + "/to", "open " + link + ": not a directory"},
		"a file":          {from + "/file", parent + "/to", "open " + from + "/file: not a directory"},
		"no place for it": {from, parent + "/none/to", "look for copies that are not whole: open " + parent + "/none: no such file or directory"},
	} {
		if err := Copy(c.from, c.to, true); err == nil || err.Error() != c.err {
			t.Errorf("%s: error %v, want %s", name, err, c.err)
		}
	}
	if names := namesIn(t, parent); names != "from link" {
		t.Errorf("there are %s", names)
	}
	if os.Geteuid() != 0 {
		return
	}
	must(t, unix.Mknod(filepath.Join(from, "zero"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	want := "copy " + from + `: "zero": a device is not copied: remove it`
	if err := Copy(from, parent+"/to", true); err == nil || err.Error() != want {
		t.Errorf("a device: error %v, want %s", err, want)
	}
	if names := namesIn(t, parent); names != "from link" {
		t.Errorf("there are %s", names)
	}
}

// TestHostile: somebody replaces directories and files by links to what is outside, all the time. Nothing of that gets into a copy.
func TestHostile(t *testing.T) {
	parent := t.TempDir()
	from, outside := filepath.Join(parent, "from"), filepath.Join(parent, "outside")
	must(t, os.MkdirAll(filepath.Join(from, "a"), 0o755), os.Mkdir(outside, 0o755),
		os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o600), os.WriteFile(filepath.Join(from, "a/secret"), nil, 0o600))
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !ended.Load() {
			_ = os.Rename(filepath.Join(from, "a"), filepath.Join(from, "b"))
			_ = os.Symlink(outside, filepath.Join(from, "a"))
			_ = os.Remove(filepath.Join(from, "b/secret"))
			_ = os.Symlink(filepath.Join(outside, "secret"), filepath.Join(from, "b/secret"))
			_ = os.Remove(filepath.Join(from, "a"))
			_ = os.Rename(filepath.Join(from, "b"), filepath.Join(from, "a"))
			_ = os.Remove(filepath.Join(from, "a/secret"))
			_ = os.WriteFile(filepath.Join(from, "a/secret"), nil, 0o600)
		}
	}()
	for n := range 200 {
		to := filepath.Join(parent, fmt.Sprint("to", n))
		must(t, Copy(from, to, true))
		for _, dir := range []string{"a", "b"} {
			file := filepath.Join(to, dir, "secret")
			info, err := os.Lstat(filepath.Join(to, dir))
			if err != nil || !info.IsDir() {
				continue
			}
			if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
				t.Fatalf("copy %d has what is outside", n)
			}
		}
		must(t, os.RemoveAll(to))
	}
	ended.Store(true)
	<-done
}

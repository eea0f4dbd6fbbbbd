// Package tree copies a directory that others change meanwhile. It never leaves the directory: it opens each entry by its name in a directory
// that is open already, and follows no link. So whoever writes to the directory can put nothing else into the copy.
//
// It may import the standard library and golang.org/x/sys alone.
package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrNoClone says that the file system cannot share the data of files.
var ErrNoClone = errors.New("the file system cannot share data between files (reflink)")

// batch is how many names of a directory are read at a time.
const batch = 1000

// Copy makes the directory to a copy of from, whole or not at all: it works under another name, and renames that at last. It is a success
// if to is there already. Without full, it copies no data, and the error is ErrNoClone where the file system cannot share it.
//
// Names, data, holes, links, modes, owners, times, ACLs and users' extended attributes are kept. Each file is as it was at one moment if its
// data is shared. Different files are as they were at different moments.
func Copy(from, to string, full bool) error {
	if _, err := os.Lstat(to); err == nil {
		return nil
	}
	if err := removeLeftovers(to); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(to), leftover(to)+"*")
	if err != nil {
		return fmt.Errorf("make a directory for the copy: %w", err)
	}
	if err = fill(from, work, full); err == nil {
		err = os.Rename(work, to)
	}
	if err == nil {
		return syncDir(filepath.Dir(to))
	}
	_ = os.RemoveAll(work) // else the next attempt does
	if _, there := os.Lstat(to); there == nil {
		return nil // an attempt beside this one was faster
	}
	return err
}

// leftover begins the names of copies that are not whole.
func leftover(to string) string { return "." + filepath.Base(to) + ".copy-" }

// removeLeftovers removes what attempts that were killed left of a copy.
func removeLeftovers(to string) error {
	entries, err := os.ReadDir(filepath.Dir(to))
	if err != nil {
		return fmt.Errorf("look for copies that are not whole: %w", err)
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), leftover(to)) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(to), entry.Name())); err != nil {
			return fmt.Errorf("remove a copy that is not whole: %w", err)
		}
	}
	return nil
}

func fill(from, to string, full bool) error {
	source, err := open(unix.AT_FDCWD, from, unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open %s: %w", from, err)
	}
	defer source.Close()
	target, err := open(unix.AT_FDCWD, to, unix.O_DIRECTORY)
	if err != nil {
		return fmt.Errorf("open %s: %w", to, err)
	}
	defer target.Close()
	c := copier{root: target, full: full, seen: map[inode]string{}}
	if !full {
		if err := probe(target); err != nil {
			return err
		}
	}
	if err := c.directory(source, target, "."); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return unix.Syncfs(int(target.Fd()))
}

// probe finds out before any copy whether data can be shared, so that a directory without files is no exception.
func probe(dir *os.File) error {
	file, err := os.CreateTemp(dir.Name(), ".probe-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	other, err := os.CreateTemp(dir.Name(), ".probe-")
	if err != nil {
		return err
	}
	defer os.Remove(other.Name())
	defer other.Close()
	if _, err := file.Write(make([]byte, 64<<10)); err != nil {
		return err
	}
	return clone(other, file)
}

func clone(to, from *os.File) error {
	err := unix.IoctlFileClone(int(to.Fd()), int(from.Fd()))
	for _, unable := range []error{unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.EINVAL, unix.ENOSYS} {
		if errors.Is(err, unable) {
			return ErrNoClone
		}
	}
	return err
}

// inode is a file with several names.
type inode struct{ device, number uint64 }

type copier struct {
	// root is the directory of the copy. Nobody else writes to it.
	root *os.File
	full bool
	// seen are the paths of files with several names below root.
	seen map[inode]string
}

// directory copies what is in a directory, and then what is of the directory itself: entries change its times, and its mode may forbid
// entries.
func (c copier) directory(from, to *os.File, at string) error {
	for {
		names, err := from.Readdirnames(batch)
		for _, name := range names {
			err := c.entry(from, to, name, path.Join(at, name))
			if err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return wrap(at, err)
		}
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &stat); err != nil {
		return wrap(at, err)
	}
	return wrap(at, c.finish(from, to, stat))
}

// entry copies one entry. One that was removed meanwhile is none.
func (c copier) entry(from, to *os.File, name, at string) error {
	var stat unix.Stat_t
	err := unix.Fstatat(int(from.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return wrap(at, err)
	}
	switch stat.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.opened(from, name, at, unix.O_DIRECTORY, func(dir *os.File) error { return c.subdirectory(dir, to, name, at) })
	case unix.S_IFREG:
		if c.linked(stat, to, name, at) {
			return nil
		}
		return c.opened(from, name, at, 0, func(file *os.File) error { return wrap(at, c.file(file, to, name)) })
	case unix.S_IFLNK:
		return wrap(at, c.symlink(from, to, name, stat))
	case unix.S_IFIFO, unix.S_IFSOCK:
		err = unix.Mknodat(int(to.Fd()), name, stat.Mode&unix.S_IFMT|0o600, 0)
		return wrap(at, cmp.Or(err, c.attributes(to, name, stat)))
	}
	return wrap(at, errors.New("a device is not copied: remove it"))
}

// opened opens an entry that somebody may have replaced meanwhile. One that is gone, or of another kind by now, is none: it was made during
// the copy.
func (c copier) opened(dir *os.File, name, at string, flags int, do func(*os.File) error) error {
	file, err := open(int(dir.Fd()), name, flags)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		return nil
	case err != nil:
		return wrap(at, err)
	}
	defer file.Close()
	return do(file)
}

func open(dir int, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(dir, name, flags|unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (c copier) subdirectory(from, to *os.File, name, at string) error {
	if err := unix.Mkdirat(int(to.Fd()), name, 0o700); err != nil {
		return wrap(at, err)
	}
	made, err := open(int(to.Fd()), name, unix.O_DIRECTORY)
	if err != nil {
		return wrap(at, err)
	}
	defer made.Close()
	return c.directory(from, made, at)
}

// linked gives a file another name if it is in the copy already.
func (c copier) linked(stat unix.Stat_t, to *os.File, name, at string) bool {
	if stat.Nlink < 2 {
		return false
	}
	id := inode{stat.Dev, stat.Ino}
	first, found := c.seen[id]
	if found {
		return unix.Linkat(int(c.root.Fd()), first, int(to.Fd()), name, 0) == nil // else it is a file of its own
	}
	c.seen[id] = at
	return false
}

func (c copier) file(from, to *os.File, name string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(int(from.Fd()), &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil // somebody replaced it meanwhile
	}
	fd, err := unix.Openat(int(to.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	made := os.NewFile(uintptr(fd), name)
	defer made.Close()
	err = clone(made, from)
	if c.full && errors.Is(err, ErrNoClone) {
		err = copyData(made, from, stat.Size)
	}
	if err != nil {
		return err
	}
	return cmp.Or(c.finish(from, made, stat), made.Close())
}

// copyData copies size bytes without the holes.
func copyData(to, from *os.File, size int64) error {
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break // nothing but a hole is left
		}
		if err != nil {
			return err
		}
		end, err := unix.Seek(int(from.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		end = min(end, size)
		if _, err := to.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := from.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(to, from, end-data); err != nil && !errors.Is(err, io.EOF) { // somebody truncated it
			return err
		}
		at = end
	}
	return to.Truncate(size)
}

func (c copier) symlink(from, to *os.File, name string, stat unix.Stat_t) error {
	target := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(from.Fd()), name, target)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil // it is gone, or no link any more
	}
	if err == nil {
		err = unix.Symlinkat(string(target[:n]), int(to.Fd()), name)
	}
	if err != nil {
		return err
	}
	return c.attributes(to, name, stat)
}

// attributes gives an entry that cannot be opened its owner, mode and times.
func (c copier) attributes(dir *os.File, name string, stat unix.Stat_t) error {
	err := chown(int(dir.Fd()), name, stat)
	if err == nil && stat.Mode&unix.S_IFMT != unix.S_IFLNK { // the mode of a link would be that of what it leads to
		err = unix.Fchmodat(int(dir.Fd()), name, stat.Mode&0o7777, 0)
	}
	if err != nil {
		return err
	}
	return unix.UtimesNanoAt(int(dir.Fd()), name, []unix.Timespec{stat.Atim, stat.Mtim}, unix.AT_SYMLINK_NOFOLLOW)
}

// finish gives a file or directory the attributes of another. chown takes the set-user-ID bit away, so the mode comes after it.
func (c copier) finish(from, to *os.File, stat unix.Stat_t) error {
	fd := int(to.Fd())
	if err := copyExtended(int(from.Fd()), fd); err != nil {
		return fmt.Errorf("keep its extended attributes: %w", err)
	}
	if err := chown(fd, "", stat); err != nil {
		return err
	}
	if err := unix.Fchmod(fd, stat.Mode&0o7777); err != nil {
		return err
	}
	times := []unix.Timeval{unix.NsecToTimeval(stat.Atim.Nano()), unix.NsecToTimeval(stat.Mtim.Nano())}
	return unix.Futimes(fd, times)
}

// chown gives an entry its owner. Whoever is not root can keep only what is his own.
func chown(dir int, name string, stat unix.Stat_t) error {
	var made unix.Stat_t
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	err := unix.Fstatat(dir, name, &made, flags)
	if err == nil && (made.Uid != stat.Uid || made.Gid != stat.Gid) {
		err = unix.Fchownat(dir, name, int(stat.Uid), int(stat.Gid), flags)
	}
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("give it to its owner %d:%d: %w: the class needs run-as-user: \"0\"", stat.Uid, stat.Gid, err)
	}
	return err
}

// extended reports whether an extended attribute belongs to the user. Labels of SELinux and the like are set by whoever mounts the volume.
func extended(name string) bool {
	return strings.HasPrefix(name, "user.") || slices.Contains([]string{"system.posix_acl_access", "system.posix_acl_default"}, name)
}

func copyExtended(from, to int) error {
	names, err := readExtended(func(buffer []byte) (int, error) { return unix.Flistxattr(from, buffer) })
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range strings.Split(string(names), "\x00") { // each ends with a NUL, so that the last text is empty
		if !extended(name) {
			continue
		}
		value, err := readExtended(func(buffer []byte) (int, error) { return unix.Fgetxattr(from, name, buffer) })
		if errors.Is(err, unix.ENODATA) {
			continue // it is gone
		}
		if err == nil {
			err = unix.Fsetxattr(to, name, value, 0)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// maxExtended is Linux's limit on a value, and on the names together.
const maxExtended = 64 << 10

func readExtended(read func([]byte) (int, error)) ([]byte, error) {
	buffer := make([]byte, maxExtended)
	n, err := read(buffer)
	return buffer[:max(n, 0)], err
}

func syncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func wrap(at string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, ErrNoClone) {
		return err
	}
	return fmt.Errorf("%q: %w", at, err)
}

package sandbox

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is the future root of a sandbox, by a descriptor of its directory. All paths are resolved as if the directory
// were the root: a link of the image, absolute or not, leads to something below it or to nothing.
type tree struct {
	fd int
	// ours are the file systems that end with the sandbox. Nothing is created in any other.
	ours map[uint64]bool
}

// attempts is how often a path is resolved again while others rename files and mount at the same time.
const attempts = 128

// open opens what is there. The kernel follows links below the tree only, and none of /proc that stand for open files.
func (t tree) open(name string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for range attempts {
		fd, err = unix.Openat2(t.fd, path.Clean("/"+name), &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return -1, fmt.Errorf("open %q: %w", name, err)
	}
	return fd, nil
}

// directory opens a directory, and creates what lacks of its path.
func (t tree) directory(name string) (int, error) {
	at, err := t.open("/", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}

	done := "/"
	for _, part := range strings.Split(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			continue
		}
		done = path.Join(done, part)
		next, err := t.open(done, unix.O_PATH|unix.O_DIRECTORY)
		if errors.Is(err, unix.ENOENT) {
			next, err = t.create(at, part, unix.S_IFDIR)
		}
		unix.Close(at)
		if err != nil {
			return -1, fmt.Errorf("directory %q: %w", done, err)
		}
		at = next
	}
	return at, nil
}

// point opens the directory or file on which something is mounted. It creates what is not there.
func (t tree) point(name string, directory bool) (fd int, err error) {
	if directory {
		fd, err = t.directory(name)
	} else {
		fd, err = t.file(name)
	}
	if err != nil {
		return -1, err
	}

	var root, stat unix.Stat_t
	if err := errors.Join(unix.Fstat(t.fd, &root), unix.Fstat(fd, &stat)); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	if stat.Dev == root.Dev && stat.Ino == root.Ino {
		return -1, errors.Join(fmt.Errorf("%q is a link to the root of the image", name), unix.Close(fd))
	}
	return fd, nil
}

func (t tree) file(name string) (int, error) {
	parent, err := t.directory(path.Dir(path.Clean("/" + name)))
	if err != nil {
		return -1, err
	}
	defer unix.Close(parent)

	fd, err := t.open(name, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return t.create(parent, path.Base(name), unix.S_IFREG)
	}
	if err != nil {
		return -1, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return -1, errors.Join(fmt.Errorf("%q is a directory of the image", name), err, unix.Close(fd))
	}
	return fd, nil
}

// create creates an empty directory or file. It replaces a link that leads nowhere.
func (t tree) create(parent int, name string, kind uint32) (int, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(parent, &stat); err != nil {
		return -1, err
	}
	if !t.ours[stat.Dev] {
		return -1, fmt.Errorf("%q is missing in what is mounted there: create it", name)
	}
	if err := unix.Unlinkat(parent, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return -1, err
	}

	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	var err error
	if kind == unix.S_IFDIR {
		flags |= unix.O_DIRECTORY
		err = unix.Mkdirat(parent, name, 0o755)
	} else {
		err = unix.Mknodat(parent, name, kind|0o644, 0)
	}
	if err != nil {
		return -1, err
	}
	return unix.Openat(parent, name, flags, 0)
}

// noSurprises are the attributes of everything that is mounted but devices.
const noSurprises = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// copyOf is a mount of what is at a path, with all that is mounted below it, before it is attached.
func copyOf(at int, name string, attributes uint64) (int, error) {
	flags := uint(unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE)
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(at, name, flags)
	if err != nil {
		return -1, err
	}

	change := unix.MountAttr{Attr_set: attributes, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &change); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// fileSystem is a new file system, before it is attached.
func fileSystem(kind string, options map[string]string, attributes int) (int, error) {
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for key, value := range options {
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attributes)
}

// attach mounts on what a descriptor is open for.
func attach(mount, point int) error {
	return unix.MoveMount(mount, "", point, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

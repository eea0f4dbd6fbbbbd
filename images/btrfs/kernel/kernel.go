// Package kernel asks the kernel for btrfs subvolumes and quota groups.
//
// It owns the ioctls and their structures. It may import the standard library and golang.org/x/sys alone, and must never know of
// Kubernetes or of provisioners. It is not for import by other modules: it changes as the image btrfs needs it.
package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoBtrfs says that a directory is not the root of a btrfs file system or subvolume.
var ErrNoBtrfs = errors.New("not the root of a btrfs file system")

// ErrOtherQuota says that a file system has quotas of another kind. By these, no subvolume that an application makes inside its own
// counts for the group of its own. By simple ones it does unless the application says otherwise.
var ErrOtherQuota = errors.New("the file system has quotas, but not simple ones")

// FS is a directory of a btrfs file system, in which subvolumes are made. Close it.
type FS struct{ dir *os.File }

// Open opens a directory. The error is ErrNoBtrfs if it is on another file system, or a mere directory of btrfs: that is what the
// kubelet makes where no disk is mounted, on a node whose own disk is btrfs.
func Open(root string) (*FS, error) {
	dir, err := os.OpenFile(root, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	fs := &FS{dir}
	stat, err := fs.stat()
	var inode unix.Stat_t
	if err == nil {
		err = fs.wrap("read the inode", unix.Fstat(int(dir.Fd()), &inode))
	}
	if err == nil && (stat.Type != unix.BTRFS_SUPER_MAGIC || inode.Ino != firstFree) {
		err = fmt.Errorf("directory %s: %w", root, ErrNoBtrfs)
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return fs, nil
}

// Close closes the directory, and ends its lock.
func (fs *FS) Close() error { return fs.dir.Close() }

// Lock waits until no other process has the lock. It ends when the FS is closed.
func (fs *FS) Lock() error {
	for {
		err := unix.Flock(int(fs.dir.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			return fs.wrap("lock", err)
		}
	}
}

// Space is how large the file system is, and how much of it is not used, in bytes.
func (fs *FS) Space() (size, free uint64, err error) {
	stat, err := fs.stat()
	return stat.Blocks * uint64(stat.Bsize), stat.Bavail * uint64(stat.Bsize), err
}

func (fs *FS) stat() (stat unix.Statfs_t, err error) {
	err = unix.Fstatfs(int(fs.dir.Fd()), &stat)
	return stat, fs.wrap("read the size", err)
}

// Sync writes what was changed to the disk.
func (fs *FS) Sync() error { return fs.wrap("sync", unix.Syncfs(int(fs.dir.Fd()))) }

// HasSimpleQuota says whether simple quotas are on. The error is ErrOtherQuota where others are.
func (fs *FS) HasSimpleQuota() (bool, error) {
	var info struct {
		maxID, devices uint64
		fsid           [16]byte
		_              [992]byte
	}
	if err := ioctl(fs.dir, ioctlFSInfo, unsafe.Pointer(&info)); err != nil {
		return false, fs.wrap("read the file system's ID", err)
	}
	id := info.fsid
	mode, err := os.ReadFile(filepath.Join("/sys/fs/btrfs", fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), "qgroups/mode"))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read the kind of quotas of %s: %w", fs.dir.Name(), err)
	case strings.TrimSpace(string(mode)) != "squota":
		return false, fmt.Errorf("directory %s: %w", fs.dir.Name(), ErrOtherQuota)
	}
	return true, nil
}

// EnableSimpleQuota turns simple quotas on. It takes Linux 6.7.
func (fs *FS) EnableSimpleQuota() error {
	args := struct{ command, status uint64 }{command: quotaEnableSimple}
	return fs.wrap("turn simple quotas on", ioctl(fs.dir, ioctlQuota, unsafe.Pointer(&args)))
}

func (fs *FS) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of %s: %w", what, fs.dir.Name(), err)
}

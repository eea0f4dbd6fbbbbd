// Package kernel makes and removes btrfs subvolumes and quota groups by the kernel's ioctls.
//
// It owns the ioctls and their structures. It may import the standard library and golang.org/x/sys alone, and has nothing of Kubernetes or of
// provisioners.
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

// ErrOtherQuota says that a file system has quotas, but not simple ones. By the older quotas a subvolume that an application creates
// inside its volume does not count for the volume's group. By simple quotas it does, unless the application names other groups.
var ErrOtherQuota = errors.New("the file system has quotas, but not simple ones")

// FS is a directory of a btrfs file system that has the subvolumes. Close it.
type FS struct{ dir *os.File }

// Open opens a directory. The error is ErrNoBtrfs if it is not the root of a btrfs file system or subvolume. On a node whose own disk is
// btrfs, the kubelet creates a plain directory of btrfs where no disk is mounted.
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

// Close closes the directory, and releases its lock.
func (fs *FS) Close() error { return fs.dir.Close() }

// Lock takes the lock, and waits while another process has it. Close releases it.
func (fs *FS) Lock() error {
	for {
		err := unix.Flock(int(fs.dir.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			return fs.wrap("lock", err)
		}
	}
}

// Space is the size of the file system and its free space, in bytes.
func (fs *FS) Space() (size, free uint64, err error) {
	stat, err := fs.stat()
	return stat.Blocks * uint64(stat.Bsize), stat.Bavail * uint64(stat.Bsize), err
}

func (fs *FS) stat() (stat unix.Statfs_t, err error) {
	err = unix.Fstatfs(int(fs.dir.Fd()), &stat)
	return stat, fs.wrap("read the size", err)
}

// Sync writes all changes to the disk.
func (fs *FS) Sync() error { return fs.wrap("sync", unix.Syncfs(int(fs.dir.Fd()))) }

// ID is the UUID of the file system.
func (fs *FS) ID() (string, error) {
	var info struct {
		maxID, devices uint64
		fsid           [16]byte
		_              [992]byte
	}
	if err := ioctl(fs.dir, ioctlFSInfo, unsafe.Pointer(&info)); err != nil {
		return "", fs.wrap("read the file system's ID", err)
	}
	id := info.fsid
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]), nil
}

// HasSimpleQuota reports whether simple quotas are enabled. The error is ErrOtherQuota if others are.
func (fs *FS) HasSimpleQuota() (bool, error) {
	id, err := fs.ID()
	if err != nil {
		return false, err
	}
	mode, err := os.ReadFile(filepath.Join("/sys/fs/btrfs", id, "qgroups/mode"))
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

// EnableSimpleQuota enables simple quotas. It needs Linux 6.7.
func (fs *FS) EnableSimpleQuota() error {
	args := struct{ command, status uint64 }{command: quotaEnableSimple}
	return fs.wrap("turn simple quotas on", ioctl(fs.dir, ioctlQuota, unsafe.Pointer(&args)))
}

func (fs *FS) wrap(operation string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s of %s: %w", operation, fs.dir.Name(), err)
}

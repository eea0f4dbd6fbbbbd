package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoSubvolume says that a name is taken by something that is no subvolume.
var ErrNoSubvolume = errors.New("not a subvolume")

// Subvolume is one that exists. Close it.
type Subvolume struct {
	// ID is the number that quota groups know it by.
	ID   uint64
	root *os.File
}

// Close closes the subvolume.
func (s *Subvolume) Close() error { return s.root.Close() }

// Chmod changes the mode of the subvolume's root.
func (s *Subvolume) Chmod(mode os.FileMode) error { return s.root.Chmod(mode) }

// Subvolume opens a subvolume by its name. Links are not followed. The error is os.ErrNotExist if the name is free, and
// ErrNoSubvolume if it is something else's.
func (fs *FS) Subvolume(name string) (*Subvolume, error) {
	fd, err := unix.Openat(int(fs.dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	path := fs.dir.Name() + "/" + name
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrNoSubvolume}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	s := &Subvolume{root: os.NewFile(uintptr(fd), path)}
	if s.ID, err = subvolumeID(s.root); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func subvolumeID(root *os.File) (uint64, error) {
	info, err := root.Stat()
	if err != nil {
		return 0, err
	}
	if info.Sys().(*syscall.Stat_t).Ino != firstFree {
		return 0, &os.PathError{Op: "open", Path: root.Name(), Err: ErrNoSubvolume}
	}
	args := struct {
		tree, object uint64
		name         [4080]byte
	}{object: firstFree}
	if err := ioctl(root, ioctlLookup, unsafe.Pointer(&args)); err != nil {
		return 0, fmt.Errorf("read the ID of subvolume %s: %w", root.Name(), err)
	}
	return args.tree, nil
}

// CreateSubvolume makes an empty subvolume as a member of a group.
func (fs *FS) CreateSubvolume(name string, group uint64) error {
	return fs.create(ioctlCreate, -1, name, group)
}

// Snapshot makes a subvolume with the data of another as a member of a group. Subvolumes inside the other are left out.
func (fs *FS) Snapshot(of *Subvolume, name string, group uint64) error {
	return fs.create(ioctlSnapshot, int64(of.root.Fd()), name, group)
}

func (fs *FS) create(request uintptr, of int64, name string, group uint64) error {
	groups := &inherit{groups: 1, group: group}
	args := volumeArgs{fd: of, flags: flagInherit, inheritSize: uint64(unsafe.Sizeof(*groups)), inherit: groups}
	if copy(args.name[:len(args.name)-1], name) < len(name) {
		return fmt.Errorf("create subvolume %.64q...: %w", name, unix.ENAMETOOLONG)
	}
	return fs.wrap("create subvolume "+name, ioctl(fs.dir, request, unsafe.Pointer(&args)))
}

// Destroy removes a subvolume with those inside it. The kernel frees its space later.
func (fs *FS) Destroy(id uint64) error {
	inside, err := fs.inside(id)
	if err != nil {
		return err
	}
	for _, id := range inside {
		if err := fs.Destroy(id); err != nil {
			return err
		}
	}
	args := volumeArgs{flags: flagByID}
	*(*uint64)(unsafe.Pointer(&args.name)) = id
	return fs.wrap(fmt.Sprintf("remove subvolume %d", id), ioctl(fs.dir, ioctlDestroy, unsafe.Pointer(&args)))
}

// inside are the subvolumes whose names are in another.
func (fs *FS) inside(id uint64) (ids []uint64, err error) {
	err = fs.search(treeRoots, key{id, itemSubvolume, 0}, key{id, itemSubvolume, unlimited}, func(k key, _ []byte) {
		if k.object == id && k.kind == itemSubvolume {
			ids = append(ids, k.offset)
		}
	})
	return ids, err
}

// Names are the names in the directory, in order.
func (fs *FS) Names() ([]string, error) {
	if _, err := fs.dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := fs.dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

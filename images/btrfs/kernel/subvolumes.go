package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNoSubvolume says that a name belongs to something else than a subvolume.
var ErrNoSubvolume = errors.New("not a subvolume")

// Subvolume is an open subvolume. Close it.
type Subvolume struct {
	// ID is its number, by which it is a member of quota groups.
	ID   uint64
	root *os.File
}

// Close closes the subvolume.
func (s *Subvolume) Close() error { return s.root.Close() }

// Chmod changes the mode of the subvolume's root.
func (s *Subvolume) Chmod(mode os.FileMode) error { return s.root.Chmod(mode) }

// Subvolume opens a subvolume by its name. It does not follow links. The error is os.ErrNotExist if there is nothing of that name, and
// ErrNoSubvolume if it is something else.
func (fs *FS) Subvolume(name string) (*Subvolume, error) {
	fd, err := openDir(fs.dir, name)
	path := fs.dir.Name() + "/" + name
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, &os.PathError{Op: "open", Path: path, Err: ErrNoSubvolume}
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return asSubvolume(os.NewFile(uintptr(fd), path))
}

// asSubvolume closes the file if it is not the root of a subvolume.
func asSubvolume(root *os.File) (*Subvolume, error) {
	id, err := subvolumeID(root)
	if err != nil {
		root.Close()
		return nil, err
	}
	return &Subvolume{ID: id, root: root}, nil
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

// CreateSubvolume creates an empty subvolume as a member of a group.
func (fs *FS) CreateSubvolume(name string, group uint64) error {
	return fs.create(ioctlCreate, -1, 0, name, group)
}

// Snapshot creates a subvolume with the data of another as a member of a group. It does not include subvolumes inside the other.
func (fs *FS) Snapshot(of *Subvolume, name string, group uint64) error {
	return fs.create(ioctlSnapshot, int64(of.root.Fd()), 0, name, group)
}

// SnapshotReadOnly is Snapshot with a subvolume that nothing can be written to.
func (fs *FS) SnapshotReadOnly(of *Subvolume, name string, group uint64) error {
	return fs.create(ioctlSnapshot, int64(of.root.Fd()), flagReadOnly, name, group)
}

func (fs *FS) create(request uintptr, of int64, flags uint64, name string, group uint64) error {
	groups := &inherit{groups: 1, group: group}
	args := volumeArgs{fd: of, flags: flagInherit | flags, inheritSize: uint64(unsafe.Sizeof(*groups)), inherit: groups}
	if copy(args.name[:len(args.name)-1], name) < len(name) {
		return fmt.Errorf("create subvolume %.64q...: %w", name, unix.ENAMETOOLONG)
	}
	return fs.wrap("create subvolume "+name, ioctl(fs.dir, request, unsafe.Pointer(&args)))
}

// Destroy removes a subvolume of the directory and the subvolumes inside it. The kernel frees the space later.
func (fs *FS) Destroy(name string) error {
	s, err := fs.Subvolume(name)
	if err != nil {
		return err
	}
	id := s.ID
	s.Close()
	if err := fs.destroyInside(id, func() (*Subvolume, error) { return fs.Subvolume(name) }); err != nil {
		return err
	}
	return fs.destroy(id)
}

// destroyInside removes the subvolumes inside a subvolume. A user may have made a subvolume read-only, or given it a limit or a group that is
// full. Nothing can be removed from it until that is undone. Only a read-only subvolume has to be opened for it.
func (fs *FS) destroyInside(id uint64, open func() (*Subvolume, error)) error {
	inside, err := fs.inside(id)
	if err != nil {
		return err
	}
	for _, e := range inside {
		err := fs.destroyInside(e.id, func() (*Subvolume, error) {
			within, err := open()
			if err != nil {
				return nil, err
			}
			defer within.Close()
			return fs.openInside(within, e)
		})
		if err != nil {
			return err
		}
		if err = fs.destroyWithin(e.id, open); errors.Is(err, unix.EDQUOT) {
			if err = fs.leaveGroups(id); err == nil {
				err = fs.destroyWithin(e.id, open)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (fs *FS) destroyWithin(id uint64, open func() (*Subvolume, error)) error {
	err := fs.destroy(id)
	if errors.Is(err, unix.EROFS) {
		if err = makeWritable(open); err == nil {
			err = fs.destroy(id)
		}
	}
	return err
}

func makeWritable(open func() (*Subvolume, error)) error {
	s, err := open()
	if err != nil {
		return err
	}
	defer s.Close()
	var flags uint64
	err = ioctl(s.root, ioctlGetFlags, unsafe.Pointer(&flags))
	if err == nil {
		flags &^= flagReadOnly
		err = ioctl(s.root, ioctlSetFlags, unsafe.Pointer(&flags))
	}
	if err != nil {
		return fmt.Errorf("make subvolume %d writable: %w", s.ID, err)
	}
	return nil
}

func (fs *FS) destroy(id uint64) error {
	args := volumeArgs{flags: flagByID}
	*(*uint64)(unsafe.Pointer(&args.name)) = id
	return fs.wrap(fmt.Sprintf("remove subvolume %d", id), ioctl(fs.dir, ioctlDestroy, unsafe.Pointer(&args)))
}

// entry is the entry of a subvolume in a directory of another one.
type entry struct {
	id, dir uint64
	name    string
}

// inside lists the subvolumes that have an entry in another.
func (fs *FS) inside(id uint64) (entries []entry, err error) {
	err = fs.search(treeRoots, key{id, itemSubvolume, 0}, key{id, itemSubvolume, unlimited}, func(k key, data []byte) {
		if k.object == id && k.kind == itemSubvolume { // struct btrfs_root_ref: directory, sequence, length of the name
			entries = append(entries, entry{k.offset, binary.LittleEndian.Uint64(data), string(data[18:])})
		}
	})
	return entries, err
}

// openInside opens a subvolume inside another. Users choose the number and length of the directories' names. So each directory is opened by
// itself, and links are not followed.
func (fs *FS) openInside(within *Subvolume, e entry) (*Subvolume, error) {
	names := []string{e.name}
	for dir := e.dir; dir != firstFree; {
		name, parent := "", uint64(0)
		err := fs.search(within.ID, key{dir, itemName, 0}, key{dir, itemName, unlimited}, func(k key, data []byte) {
			if k.object == dir && k.kind == itemName { // struct btrfs_inode_ref: index, length of the name
				name, parent = string(data[10:]), k.offset
			}
		})
		if err != nil {
			return nil, err
		}
		if parent == 0 {
			return nil, fs.wrap(fmt.Sprintf("find directory %d in subvolume %d", dir, within.ID), os.ErrNotExist)
		}
		names, dir = append(names, name), parent
	}
	file := within.root
	for _, name := range slices.Backward(names) {
		fd, err := openDir(file, name)
		if file != within.root {
			file.Close()
		}
		if err != nil {
			return nil, fs.wrap(fmt.Sprintf("open subvolume %d", e.id), err)
		}
		file = os.NewFile(uintptr(fd), name)
	}
	s, err := asSubvolume(file)
	if err == nil && s.ID != e.id { // somebody renamed it meanwhile
		s.Close()
		return nil, fs.wrap(fmt.Sprintf("open subvolume %d", e.id), os.ErrNotExist)
	}
	return s, err
}

func openDir(dir *os.File, name string) (fd int, err error) {
	return unix.Openat(int(dir.Fd()), name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// ReadOnly reports whether nothing can be written to the subvolume.
func (s *Subvolume) ReadOnly() (bool, error) {
	var flags uint64
	if err := ioctl(s.root, ioctlGetFlags, unsafe.Pointer(&flags)); err != nil {
		return false, fmt.Errorf("read the flags of subvolume %s: %w", s.root.Name(), err)
	}
	return flags&flagReadOnly != 0, nil
}

// Names lists the names in the directory, sorted.
func (fs *FS) Names() ([]string, error) {
	if _, err := fs.dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := fs.dir.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

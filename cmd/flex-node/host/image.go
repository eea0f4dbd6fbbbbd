package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

const (
	imageName = "image"
	// formattingName is a file beside the image that exists while a file system is made.
	formattingName = "formatting"
	// formattedName is what that is renamed to.
	formattedName = "formatted"
	// blankSize is how much of an image is read to see whether it is new. A file system has its first record within it.
	blankSize = 1 << 20
)

// openFolder opens the folder of a volume. Nobody can put a link, or another file system, into the way.
func openFolder(v driver.Volume) (*os.File, error) {
	directory, err := os.Open(v.Directory)
	if err != nil {
		return nil, err
	}
	defer directory.Close()

	return openBelow(directory, v.ID, unix.O_RDONLY|unix.O_DIRECTORY)
}

func openBelow(directory *os.File, name string, flags int) (*os.File, error) {
	fd, err := unix.Openat2(int(directory.Fd()), name, &unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: directory.Name() + "/" + name, Err: err}
	}

	return os.NewFile(uintptr(fd), directory.Name()+"/"+name), nil
}

// openImage opens the image of a volume for reading and writing.
func openImage(v driver.Volume) (*os.File, driver.Image, error) {
	folder, err := openFolder(v)
	if err != nil {
		return nil, driver.Image{}, noImage(v, err)
	}
	defer folder.Close()

	file, err := openBelow(folder, imageName, unix.O_RDWR)
	if err != nil {
		return nil, driver.Image{}, noImage(v, err)
	}

	image, err := check(file)
	if err != nil {
		file.Close()

		return nil, image, status.Errorf(codes.FailedPrecondition, "%s/%s/%s %v", v.Directory, v.ID, imageName, err)
	}

	return file, image, nil
}

func noImage(v driver.Volume, err error) error {
	code := codes.FailedPrecondition
	if errors.Is(err, os.ErrNotExist) {
		code = codes.NotFound
	}

	return status.Errorf(code, "volume %s has no image here: %v; is its disk or export mounted at %s on this node?",
		v.ID, err, v.Directory)
}

// check says of an open file whether it can be an image. A second name of it may be that of another volume.
func check(file *os.File) (driver.Image, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return driver.Image{}, err
	}

	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return driver.Image{}, errors.New("is no regular file")
	case stat.Nlink != 1:
		return driver.Image{}, fmt.Errorf("has %d names: an image has one", stat.Nlink)
	case stat.Size == 0:
		return driver.Image{}, errors.New("is empty")
	}

	return driver.Image{File: driver.FileID{Device: stat.Dev, Inode: stat.Ino}, Size: stat.Size}, nil
}

// Image implements driver.Host.
func (*Host) Image(v driver.Volume) (driver.Image, error) {
	file, image, err := openImage(v)
	if err == nil {
		file.Close()
	}

	return image, err
}

// begin makes the mark beside the image that a file system is being made, and end makes it one that there is a file
// system. Both last when the node loses its power.
func begin(v driver.Volume) error {
	return inFolder(v, func(folder *os.File) error {
		const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_CLOEXEC
		fd, err := unix.Openat(int(folder.Fd()), formattingName, flags, 0o600)
		if err != nil {
			return err
		}

		return unix.Close(fd)
	})
}

func end(v driver.Volume) error {
	return inFolder(v, func(folder *os.File) error {
		return unix.Renameat(int(folder.Fd()), formattingName, int(folder.Fd()), formattedName)
	})
}

func inFolder(v driver.Volume, do func(folder *os.File) error) error {
	folder, err := openFolder(v)
	if err != nil {
		return err
	}
	defer folder.Close()

	if err := do(folder); err != nil {
		return fmt.Errorf("mark that the image of volume %s is being formatted: %w", v.ID, err)
	}

	return folder.Sync()
}

// marks reports which marks there are.
func marks(v driver.Volume) (begun, ended bool, err error) {
	folder, err := openFolder(v)
	if err != nil {
		return false, false, err
	}
	defer folder.Close()

	has := func(name string) bool {
		var stat unix.Stat_t
		fault := unix.Fstatat(int(folder.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW)
		if fault != nil && !errors.Is(fault, unix.ENOENT) {
			err = fault
		}

		return fault == nil
	}

	begun, ended = has(formattingName), has(formattedName)
	if err == nil && !begun {
		err = folder.Sync() // who renamed it may have been killed before its Sync
	}

	return begun, ended, err
}

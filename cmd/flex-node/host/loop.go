package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

const (
	// mark begins the name that each of our devices is given. losetup gives the others the path of their file.
	mark = "flex:"
	// freeDevices is how often another program may be faster to take the free device that the kernel names.
	freeDevices = 32
	// closing is how long a device may take to be free after its last user.
	closing = 3 * time.Second
)

// Devices implements driver.Host.
func (*Host) Devices() (devices []driver.Device, err error) {
	attached, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}

	for _, dir := range attached {
		file, d, err := open("/dev/" + filepath.Base(filepath.Dir(dir)))
		if err != nil {
			return nil, err
		}

		if file != nil {
			file.Close()
			devices = append(devices, d)
		}
	}

	return devices, nil
}

// open opens a device, which keeps its file as long as it is open, and asks the kernel what it is. The file is nil for
// a device that was detached meanwhile.
func open(path string) (*os.File, driver.Device, error) {
	file, err := os.OpenFile(path, os.O_RDONLY, 0)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENXIO) {
		return nil, driver.Device{}, nil
	}

	if err != nil {
		return nil, driver.Device{}, err
	}

	d, err := look(path, file)
	if err != nil {
		file.Close()
	}

	if errors.Is(err, unix.ENXIO) || errors.Is(err, os.ErrNotExist) {
		return nil, d, nil
	}

	if err != nil {
		return nil, d, fmt.Errorf("ask for the file of %s: %w", path, err)
	}

	return file, d, nil
}

func look(path string, file *os.File) (d driver.Device, err error) {
	info, err := unix.IoctlLoopGetStatus64(int(file.Fd()))
	if err != nil {
		return d, err
	}

	image, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(path), "loop/backing_file"))
	if err != nil {
		return d, err
	}

	var stat unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &stat); err != nil {
		return d, err
	}

	size, err := file.Seek(0, io.SeekEnd)
	d = driver.Device{Path: path, Number: stat.Rdev, Size: size,
		File: driver.FileID{Device: info.Device, Inode: info.Inode}}
	d.Volume, d.Marked = volumeOf(string(image), unix.ByteSliceToString(info.File_name[:]))

	return d, err
}

// removed is what the image loop renames the folder of a volume to, before it removes it.
var removed = regexp.MustCompile(`^\.(.+)\.copy-removed$`)

// volumeOf is the volume whose image a device has, by the path that the kernel keeps of the file. name is the one that
// the device was given: whoever has a raw device can give it another one, so it counts where it does not contradict the
// path.
func volumeOf(image, name string) (volume string, marked bool) {
	image = strings.TrimSuffix(strings.TrimSpace(image), " (deleted)")
	folder := filepath.Base(filepath.Dir(image))
	if was := removed.FindStringSubmatch(folder); was != nil {
		folder = was[1]
	}

	name, marked = strings.CutPrefix(name, mark)
	if marked && name == folder || filepath.Base(image) == imageName {
		return folder, marked
	}

	return "", false
}

// Attach implements driver.Host. The device keeps the open file, and with it the lock, for as long as it has the file:
// whatever becomes of this process, nobody else has the image. NFS asks the server for the lock, which frees it when
// the node is gone.
func (*Host) Attach(v driver.Volume) error {
	file, _, err := openImage(v)
	if err != nil {
		return err
	}
	defer file.Close()

	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return status.Errorf(codes.FailedPrecondition, "another node, or another program, has the image")
	}

	if err != nil {
		return fmt.Errorf("lock the image: %w", err)
	}

	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer control.Close()

	for range freeDevices {
		number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("ask for a free loop device: %w", err)
		}

		err = configure(fmt.Sprintf("/dev/loop%d", number), file, v.ID)
		if !errors.Is(err, unix.EBUSY) {
			return err
		}
	}

	return errors.New("other programs take every free loop device")
}

// sector is the block size of every device. The kernel would choose a larger one for a file that has shared data with a
// snapshot, and a file system of smaller sectors could not be mounted any more.
const sector = 512

// configure gives a free device the file. Without direct I/O the node keeps all data twice. The kernel leaves it off
// where the file system below cannot do it in sectors. btrfs before Linux 6.15 would store wrong checksums with it:
// what is written may change meanwhile, and cannot be read any more.
func configure(path string, file *os.File, volume string) error {
	device, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer device.Close()

	var below unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &below); err != nil {
		return err
	}

	config := &unix.LoopConfig{Fd: uint32(file.Fd()), Size: sector}
	if below.Type != unix.BTRFS_SUPER_MAGIC {
		config.Info.Flags = unix.LO_FLAGS_DIRECT_IO
	}

	copy(config.Info.File_name[:len(config.Info.File_name)-1], mark+volume)
	if err := unix.IoctlLoopConfigure(int(device.Fd()), config); err != nil {
		return fmt.Errorf("attach the image to %s: %w", path, err)
	}

	return nil
}

// Detach implements driver.Host. The kernel frees a device in use after its last user, and reports success.
func (h *Host) Detach(ctx context.Context, d driver.Device) error {
	device, now, err := open(d.Path)
	if err != nil || device == nil {
		return err
	}

	if now.File == d.File {
		err = unix.IoctlSetInt(int(device.Fd()), unix.LOOP_CLR_FD, 0)
	}

	device.Close()
	if err != nil && !errors.Is(err, unix.ENXIO) {
		return fmt.Errorf("detach %s: %w", d.Path, err)
	}

	ctx, cancel := context.WithTimeout(ctx, closing)
	defer cancel()

	for tick := time.NewTicker(20 * time.Millisecond); ; {
		device, now, err = open(d.Path)
		if err != nil || device == nil {
			return err
		}

		device.Close()
		if now.File != d.File {
			return nil
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return status.Errorf(codes.Unavailable, "%s is still in use", d.Path)
		}
	}
}

// Resize implements driver.Host. To open the file makes the node ask an NFS server how large it is.
func (*Host) Resize(d driver.Device, directories []string) (int64, error) {
	for _, directory := range directories {
		file, _, err := openImage(driver.Volume{ID: d.Volume, Directory: directory})
		if err == nil { // it is in another directory, or was replaced: the device knows its file
			defer file.Close()
		}
	}

	device, err := os.Open(d.Path) // some kernels let nobody write to what is mounted
	if err != nil {
		return 0, err
	}
	defer device.Close()

	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return 0, fmt.Errorf("give %s the size of its image: %w", d.Path, err)
	}

	return device.Seek(0, io.SeekEnd)
}

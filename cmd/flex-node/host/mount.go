package host

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
	mountutils "k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

// Host is the node of this process.
type Host struct {
	mounter mountutils.Interface
	exec    exec.Interface
	// records is the directory that has those of volumes. root is the host's, where its processes can be seen, and sys is
	// the kernel's.
	records, root, sys string
}

// New returns the node of this process, with a directory for records of volumes. systemd is not asked to mount: there
// is none in a container.
func New(records string) *Host {
	return &Host{mounter: mountutils.NewWithoutSystemd(""), exec: exec.New(),
		records: records, root: "/proc/1/root", sys: "/sys"}
}

// formatArgs do not discard, which would give back the space that the image was promised.
var formatArgs = map[string][]string{
	"ext4": {"-q", "-F", "-m0", "-Enodiscard"},
	"xfs":  {"-q", "-f", "-K"},
}

// mountOptions come last, so that no others have a say. A damaged ext4 file system may ask for the kernel to panic, and
// a new one for zeros in the background, for which a loop device gives the space of its image back. A restored XFS has
// the UUID of its source, which may be mounted on the same node.
var mountOptions = map[string][]string{
	"ext4": {"nodev", "errors=remount-ro", "noinit_itable"},
	"xfs":  {"nodev", "nouuid"},
}

// Mounted implements driver.Host. It looks into the table of mounts alone.
func (*Host) Mounted(path string) (driver.Mount, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return driver.Mount{}, nil
	}

	if err != nil {
		return driver.Mount{}, err
	}

	table, err := mountutils.ParseMountInfo("/proc/self/mountinfo")
	if err != nil {
		return driver.Mount{}, fmt.Errorf("read the table of mounts: %w", err)
	}

	resolved := filepath.Join(parent, filepath.Base(path))
	for _, m := range slices.Backward(table) {
		if m.MountPoint != resolved {
			continue
		}

		readOnly := slices.Contains(m.MountOptions, "ro")
		if m.FsType != "devtmpfs" && m.FsType != "tmpfs" {
			return driver.Mount{Number: unix.Mkdev(uint32(m.Major), uint32(m.Minor)), ReadOnly: readOnly}, nil
		}

		var stat unix.Stat_t // a device is bound there, by the file that it has in /dev
		err := unix.Lstat(resolved, &stat)

		return driver.Mount{Number: stat.Rdev, Raw: true, ReadOnly: readOnly}, err
	}

	return driver.Mount{}, nil
}

// Content implements driver.Host.
func (h *Host) Content(v driver.Volume, d driver.Device) (driver.Content, error) {
	begun, ended, err := marks(v)
	if err != nil {
		return driver.Content{}, err
	}

	c, err := h.Probe(d)
	c.Formatting, c.Formatted = begun, ended

	return c, err
}

// Probe implements driver.Host. mkfs.ext4 writes last what makes an ext4 file system known. mkfs.xfs does so first, and
// says until its end that it is not whole.
func (h *Host) Probe(d driver.Device) (c driver.Content, err error) {
	device, err := os.Open(d.Path)
	if err != nil {
		return c, err
	}
	defer device.Close()

	if c.Blank, err = isBlank(device); err != nil {
		return c, err
	}

	c.FSType, err = (&mountutils.SafeFormatAndMount{Interface: h.mounter, Exec: h.exec}).GetDiskFormat(d.Path)
	if err != nil || c.FSType != "xfs" {
		return c, err
	}

	inProgress := make([]byte, 1)
	if _, err := device.ReadAt(inProgress, xfsInProgress); err != nil {
		return c, err
	}

	if inProgress[0] != 0 {
		c.FSType = ""
	}

	return c, nil
}

// xfsInProgress is where an XFS says so.
const xfsInProgress = 126

func isBlank(device io.Reader) (bool, error) {
	start := make([]byte, blankSize)
	n, err := io.ReadFull(device, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) { // a part says nothing of the rest
		return false, fmt.Errorf("read the beginning of the device: %w", err)
	}

	return len(bytes.Trim(start[:n], "\x00")) == 0, nil
}

// Format implements driver.Host.
func (h *Host) Format(v driver.Volume, d driver.Device) error {
	if err := begin(v); err != nil {
		return err
	}

	if err := h.MakeFileSystem(v, d); err != nil {
		return err
	}

	return end(v)
}

// MakeFileSystem implements driver.Host.
func (h *Host) MakeFileSystem(v driver.Volume, d driver.Device) error {
	return h.run("mkfs."+v.FSType, append(slices.Clone(formatArgs[v.FSType]), d.Path)...)
}

// Mount implements driver.Host. What nobody may write to is not repaired.
func (h *Host) Mount(ctx context.Context, v driver.Volume, d driver.Device, path string) error {
	options := append(slices.Clone(v.Options), mountOptions[v.FSType]...)
	if v.ReadOnly {
		return h.mounter.Mount(d.Path, path, v.FSType, append(options, "ro"))
	}

	err := h.run("fsck", "-a", d.Path)

	var exit exec.ExitError
	if errors.As(err, &exit) && exit.ExitStatus() == 1 {
		klog.FromContext(ctx).Info("Repaired the file system", "volume", v.ID, "output", err.Error())
		err = nil
	}

	if err != nil {
		return err
	}

	return h.mounter.Mount(d.Path, path, v.FSType, options)
}

// Grow implements driver.Host.
func (h *Host) Grow(d driver.Device, path string) error {
	_, err := mountutils.NewResizeFs(h.exec).Resize(d.Path, path)

	return err
}

// Bind implements driver.Host.
func (h *Host) Bind(from, to string, options []string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}

	if info.IsDir() {
		err = os.MkdirAll(to, 0o750)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o750); err == nil {
		var file *os.File
		if file, err = os.OpenFile(to, os.O_CREATE|os.O_RDONLY|unix.O_NOFOLLOW, 0o640); err == nil {
			err = file.Close()
		}
	}

	if err != nil {
		return err
	}

	return h.mounter.Mount(from, to, "", append([]string{"bind"}, options...))
}

// Unmount implements driver.Host.
func (h *Host) Unmount(path string) error { return h.mounter.Unmount(path) }

// Remove implements driver.Host.
func (*Host) Remove(path string) error {
	err := os.Remove(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}

	return err
}

// Usage implements driver.Host.
func (*Host) Usage(path string) (u driver.Usage, err error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return u, err
	}

	block := uint64(stat.Bsize)
	u.Bytes = driver.Amounts{Total: int64(stat.Blocks * block), Used: int64((stat.Blocks - stat.Bfree) * block),
		Available: int64(stat.Bavail * block)}
	u.Inodes = driver.Amounts{Total: int64(stat.Files), Used: int64(stat.Files - stat.Ffree),
		Available: int64(stat.Ffree)}

	return u, nil
}

// outputLimit is how much of a program's output becomes part of an error.
const outputLimit = 512

// run runs a program to its end, also when nobody waits any more: a repair that takes longer than a call of the kubelet
// would begin anew for ever.
func (h *Host) run(program string, args ...string) error {
	return outcome(h.exec.Command(program, args...), program, args)
}

// outcome runs a command, and names it in an error as it was meant.
func outcome(command exec.Cmd, program string, args []string) error {
	output, err := command.CombinedOutput()
	if err == nil {
		return nil
	}

	text := strings.Join(strings.Fields(string(output)), " ")

	return fmt.Errorf("%s %s: %w: %.*s", program, strings.Join(args, " "), err, outputLimit, text)
}

package host

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	mountutils "k8s.io/mount-utils"

	"github.com/flex-provisioner/flex-provisioner/cmd/flex-node/driver"
)

const (
	// appearing is how long a disk may take to appear after the kernel was told to look, or a map of disks.
	appearing = 10 * time.Second
	// diskSector is what the kernel counts the sizes of all devices in.
	diskSector = 512
	// loggedIn is the state of a session that works.
	loggedIn = "LOGGED_IN"
)

// addressForm is that of a SCSI device, as HOST:CHANNEL:ID:LUN.
var addressForm = regexp.MustCompile(`^[0-9]+:[0-9]+:[0-9]+:([0-9]+)$`)

// attribute is what a file of sysfs has, and empty where there is none. Devices go away at any time.
func attribute(path ...string) string {
	data, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		return ""
	}

	return strings.TrimSpace(string(data))
}

// order writes to a file of sysfs. One that is gone is an error.
func order(text string, path ...string) error {
	file, err := os.OpenFile(filepath.Join(path...), os.O_WRONLY, 0)
	if err != nil {
		return err
	}

	_, err = file.WriteString(text)

	return errors.Join(err, file.Close())
}

// names are those of what is in a directory, which need not exist.
func names(path ...string) (all []string, err error) {
	entries, err := os.ReadDir(filepath.Join(path...))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}

	for _, entry := range entries {
		all = append(all, entry.Name())
	}

	return all, err
}

// until waits for something that the kernel or a program of the host does meanwhile.
func until(ctx context.Context, done func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, appearing)
	defer cancel()

	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return done()
		}
	}

	return true
}

// sessions are the IDs of those with the portal and target of a path. The portal is the one that was logged in to: a
// target may have moved the session to another one since.
func (h *Host) sessions(p driver.Path) (ids []string, err error) {
	connections, err := names(h.sys, "class/iscsi_connection")
	if err != nil {
		return nil, err
	}

	for _, c := range connections {
		id, _, _ := strings.Cut(strings.TrimPrefix(c, "connection"), ":")
		address, _ := netip.ParseAddr(attribute(h.sys, "class/iscsi_connection", c, "persistent_address"))
		port := attribute(h.sys, "class/iscsi_connection", c, "persistent_port")
		portal := address == p.Portal.Addr() && port == strconv.Itoa(int(p.Portal.Port()))
		if portal && attribute(h.session(id), "targetname") == p.Target && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}

	return ids, nil
}

func (h *Host) session(id string) string {
	return filepath.Join(h.sys, "class/iscsi_session", "session"+id)
}

// Link implements driver.Host.
func (h *Host) Link(p driver.Path) (l driver.Link, err error) {
	ids, err := h.sessions(p)
	if err != nil {
		return l, err
	}

	for _, id := range ids {
		if l.Session == "" {
			l.Session = id
		}

		// Each device of the session is at targetH:C:I/H:C:I:L.
		devices, err := filepath.Glob(filepath.Join(h.session(id), "device/target*/*:*:*:*"))
		if err != nil {
			return l, err
		}

		for _, device := range devices {
			address := addressForm.FindStringSubmatch(filepath.Base(device))
			if address == nil {
				continue
			}

			if address[1] != strconv.Itoa(p.LUN) {
				l.Others = true
				continue
			}

			l.Session, l.Address = id, address[0]
			if l.Disk, err = h.disk(device); err != nil {
				return l, err
			}
		}
	}

	return l, nil
}

// disk is the one of a SCSI device, which may have none.
func (h *Host) disk(device string) (d driver.Disk, err error) {
	blocks, err := names(device, "block")
	if err != nil || len(blocks) == 0 {
		return d, err
	}

	if d.Device, err = h.device(blocks[0]); err != nil {
		return d, err
	}

	d.WWID = attribute(device, "wwid")
	holders, err := names(h.sys, "block", blocks[0], "holders")
	for _, holder := range holders {
		if err == nil && h.isMap(holder) {
			d.Map, err = h.device(holder)
		}
	}

	return d, err
}

func (h *Host) isMap(name string) bool {
	return strings.HasPrefix(attribute(h.sys, "block", name, "dm/uuid"), "mpath-")
}

func (h *Host) device(name string) (driver.Device, error) {
	d := driver.Device{Path: "/dev/" + name}
	var major, minor uint32
	number := attribute(h.sys, "block", name, "dev")
	if _, err := fmt.Sscanf(number, "%d:%d", &major, &minor); err != nil {
		return d, fmt.Errorf("the number of %s is %q: %w", d.Path, number, err)
	}

	sectors, err := strconv.ParseInt(attribute(h.sys, "block", name, "size"), 10, 64)
	if err != nil {
		return d, fmt.Errorf("the size of %s: %w", d.Path, err)
	}

	d.Number, d.Size = unix.Mkdev(major, minor), sectors*diskSector

	return d, nil
}

// Users implements driver.Host. A device that nothing in sysfs holds may be mounted where this process does not see it:
// the kernel gives it to one user at a time.
func (h *Host) Users(d driver.Device) (string, error) {
	name := filepath.Base(d.Path)
	holders, err := names(h.sys, "block", name, "holders")
	if err != nil {
		return "", err
	}

	for _, holder := range holders {
		partition := strings.HasPrefix(attribute(h.sys, "block", holder, "dm/uuid"), "part") // it goes away with its map
		if !h.isMap(holder) && !partition {
			return fmt.Sprintf("%s has %s", holder, d.Path), nil
		}
	}

	table, err := mountutils.ParseMountInfo("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("read the table of mounts: %w", err)
	}

	for _, m := range table {
		bound := (m.FsType == "devtmpfs" || m.FsType == "tmpfs") && m.Root == "/"+name
		if bound || unix.Mkdev(uint32(m.Major), uint32(m.Minor)) == d.Number {
			return fmt.Sprintf("%s is mounted at %s", d.Path, m.MountPoint), nil
		}
	}

	if len(holders) > 0 {
		return "", nil
	}

	file, err := os.OpenFile(d.Path, os.O_RDONLY|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Sprintf("another program has %s", d.Path), nil
	}

	if errors.Is(err, unix.ENXIO) { // the array does not answer any more
		return "", nil
	}

	if err != nil {
		return "", err
	}

	return "", file.Close()
}

// Scan implements driver.Host. The software initiator has a SCSI host of its own for each session, with one target.
func (h *Host) Scan(ctx context.Context, p driver.Path) error {
	l, err := h.Link(p)
	if err != nil {
		return err
	}

	if state := attribute(h.session(l.Session), "state"); state != loggedIn {
		return fmt.Errorf("its session is %q, and not %s", state, loggedIn)
	}

	device, err := filepath.EvalSymlinks(filepath.Join(h.session(l.Session), "device"))
	if err != nil {
		return err
	}

	host := filepath.Base(filepath.Dir(device))
	if err := order(fmt.Sprintf("0 0 %d", p.LUN), h.sys, "class/scsi_host", host, "scan"); err != nil {
		return err
	}

	appeared := until(ctx, func() bool {
		l, err = h.Link(p)

		return err != nil || l.Disk.Path != ""
	})
	if err == nil && !appeared {
		err = errors.New("no disk appears: has the array given the LUN to this node")
	}

	return err
}

// Rescan implements driver.Host.
func (h *Host) Rescan(address string) error {
	return order("1", h.sys, "class/scsi_device", address, "device/rescan")
}

// Drop implements driver.Host. The kernel returns when the disk is gone.
func (h *Host) Drop(l driver.Link) error {
	if l.Disk.Path != "" {
		if err := flushBuffers(l.Disk.Path); err != nil {
			return err
		}
	}

	return order("1", h.sys, "class/scsi_device", l.Address, "device/delete")
}

// flushBuffers writes what pods have left in the node's memory for a raw device. To an array that does not answer any
// more nobody can write it.
func flushBuffers(path string) error {
	err := onDevice(path, os.O_RDONLY, func(device *os.File) error {
		return unix.IoctlSetInt(int(device.Fd()), unix.BLKFLSBUF, 0)
	})
	if errors.Is(err, unix.ENXIO) {
		return nil
	}

	return err
}

// Protect implements driver.Host. A file system that is mounted to be read writes its journal otherwise.
func (*Host) Protect(d driver.Device) error {
	return onDevice(d.Path, os.O_RDONLY, func(device *os.File) error {
		return unix.IoctlSetPointerInt(int(device.Fd()), unix.BLKROSET, 1)
	})
}

// Wipe implements driver.Host.
func (*Host) Wipe(d driver.Device) error {
	return onDevice(d.Path, os.O_WRONLY|unix.O_EXCL, func(device *os.File) error {
		if _, err := device.Write(make([]byte, blankSize)); err != nil {
			return err
		}

		return device.Sync()
	})
}

func onDevice(path string, flags int, do func(device *os.File) error) error {
	device, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return err
	}

	return errors.Join(do(device), device.Close())
}

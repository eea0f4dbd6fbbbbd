package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// scratchSize limits what a program can write to a root that is writable, in memory.
const scratchSize = 64 << 20

// assemble makes the root of the sandbox out of sight of all other processes, and returns its descriptor. The caller
// has a mount namespace of its own, and still sees the machine. No program of the image runs meanwhile.
//
// The root is an overlay whose upper layer is in memory, so that mount points can be created in it.
func (s Spec) assemble() (int, error) {
	syscall.Umask(0)
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return -1, fmt.Errorf("keep mounts to ourselves: %w", err)
	}

	others, err := s.otherMounts()
	if err != nil {
		return -1, err
	}

	t, err := s.overlay()
	if err != nil {
		return -1, err
	}
	if err := t.devices(); err != nil {
		return -1, err
	}
	for i, m := range append(others, s.Mounts...) {
		if err := s.mount(t, m, i); err != nil {
			return -1, fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
		}
	}

	proc, err := t.directory("/proc")
	if err != nil {
		return -1, err
	}
	unix.Close(proc)
	if s.Network {
		if err := t.resolv(); err != nil {
			return -1, err
		}
	}

	if s.Writable {
		return t.fd, nil
	}
	readOnly := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(t.fd, "", unix.AT_EMPTY_PATH, &readOnly); err != nil {
		return -1, fmt.Errorf("make the root read-only: %w", err)
	}
	return t.fd, nil
}

func (s Spec) overlay() (tree, error) {
	const attributes = unix.MS_NOSUID | unix.MS_NODEV
	size := "mode=0755,size=" + strconv.Itoa(scratchSize)
	if err := unix.Mount("scratch", s.Scratch, "tmpfs", attributes, size); err != nil {
		return tree{}, fmt.Errorf("mount scratch: %w", err)
	}

	dirs := map[string]string{}
	for _, name := range []string{"root", "upper", "work"} {
		dirs[name] = filepath.Join(s.Scratch, name)
		if err := os.Mkdir(dirs[name], 0o755); err != nil {
			return tree{}, err
		}
	}

	owner := HostID(0, s.HostUsers)
	if err := os.Chown(dirs["upper"], owner, owner); err != nil {
		return tree{}, err
	}

	escaped := strings.NewReplacer(`\`, `\\`, ",", `\,`, ":", `\:`).Replace
	options := "lowerdir=" + escaped(s.Root) + ",upperdir=" + escaped(dirs["upper"]) + ",workdir=" + escaped(dirs["work"])
	if !asRoot() {
		options += ",userxattr"
	}
	if err := unix.Mount("overlay", dirs["root"], "overlay", attributes, options); err != nil {
		return tree{}, fmt.Errorf("mount overlay over %s: %w", s.Root, err)
	}

	fd, err := unix.Open(dirs["root"], unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return tree{}, err
	}
	t := tree{fd, map[uint64]bool{}}
	return t, t.own(fd)
}

// own notes that a file system ends with the sandbox.
func (t tree) own(fd int) error {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	t.ours[stat.Dev] = true
	return err
}

// devices mounts a /dev that has those of every container.
func (t tree) devices() error {
	dev, err := fileSystem("tmpfs", map[string]string{"mode": "0755", "size": "64k"}, noSurprises|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return fmt.Errorf("make /dev: %w", err)
	}
	defer unix.Close(dev)

	point, err := t.point("/dev", true)
	if err == nil {
		err = errors.Join(t.own(dev), attach(dev, point), unix.Close(point))
	}
	if err != nil {
		return fmt.Errorf("mount /dev: %w", err)
	}

	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := t.device(dev, name); err != nil {
			return fmt.Errorf("mount /dev/%s: %w", name, err)
		}
	}

	for name, to := range map[string]string{"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"} {
		if err := unix.Symlinkat("/proc/self/"+to, dev, name); err != nil {
			return fmt.Errorf("make /dev/%s: %w", name, err)
		}
	}
	return nil
}

func (t tree) device(dev int, name string) error {
	device, err := copyOf(unix.AT_FDCWD, "/dev/"+name, 0)
	if err != nil {
		return err
	}
	defer unix.Close(device)
	point, err := t.create(dev, name, unix.S_IFREG)
	if err != nil {
		return err
	}
	return errors.Join(attach(device, point), unix.Close(point))
}

// mount creates the mount point and mounts the source.
func (s Spec) mount(t tree, m Mount, number int) error {
	attributes := uint64(noSurprises)
	if m.ReadOnly {
		attributes |= unix.MOUNT_ATTR_RDONLY
	}

	source := m.Source
	if m.Memory > 0 {
		var err error
		if source, err = s.memory(t, m, number); err != nil {
			return err
		}
	}

	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	mounted, err := copyOf(unix.AT_FDCWD, source, attributes)
	if err != nil {
		return err
	}
	defer unix.Close(mounted)

	point, err := t.point(m.Target, info.IsDir())
	if err != nil {
		return err
	}
	return errors.Join(attach(mounted, point), unix.Close(point))
}

// memory makes a file system in memory, and returns the path of its directory or its one file.
func (s Spec) memory(t tree, m Mount, number int) (string, error) {
	dir := filepath.Join(s.Scratch, "memory-"+strconv.Itoa(number))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	// Some of the size is for names and for sparse files' maps, which count as well.
	options := fmt.Sprintf("mode=1777,size=%d,nr_inodes=%d", m.Memory, max(m.Memory>>10, 16))
	if err := unix.Mount("memory", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return "", err
	}

	if m.File {
		file := filepath.Join(dir, "file")
		return file, os.WriteFile(file, nil, 0o666)
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return dir, errors.Join(t.own(fd), unix.Close(fd))
}

// resolv lets programs resolve names as the machine does. The file may lead into /run; names are then not resolved.
func (t tree) resolv() error {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return nil
	}
	etc, err := t.directory("/etc")
	if err != nil {
		return err
	}
	defer unix.Close(etc)
	point, err := t.create(etc, "resolv.conf", unix.S_IFREG)
	if err != nil {
		return fmt.Errorf("write /etc/resolv.conf: %w", err)
	}
	defer unix.Close(point)

	// A process that another goroutine starts has a copy of every open file until its exec. A mount with a file that is
	// open for writing cannot be made read-only.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile("/proc/self/fd/"+strconv.Itoa(point), text, 0o644)
}

// otherMounts lists the file systems below the machine's root, which an overlay does not show, without those that the
// sandbox mounts itself.
func (s Spec) otherMounts() ([]Mount, error) {
	if s.Root != "/" {
		return nil, nil
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}

	seen := []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/var/run", "/etc/resolv.conf"}
	var mounts []Mount
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 5 || fields[4] == "/" || strings.Contains(fields[4], `\`) || within(fields[4], seen) {
			continue
		}
		seen = append(seen, fields[4])
		if _, err := os.Stat(fields[4]); err == nil {
			mounts = append(mounts, Mount{Source: fields[4], Target: fields[4], ReadOnly: true})
		}
	}
	return mounts, nil
}

func within(path string, dirs []string) bool {
	for _, dir := range dirs {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			return true
		}
	}
	return false
}

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// order is what Start tells the process inside.
type order struct {
	Spec
	// Assembled reports whether the working directory is the root of the sandbox already.
	Assembled bool
}

// The descriptors that Start gives the process inside.
const (
	channelFD = 3
	programFD = 4
)

// A process that Start started becomes the sandbox here. What other packages of the program initialize takes longer than
// a short pod, and Go initializes this one before most of them, since its path comes early.
func init() {
	if len(os.Args) != 1 || os.Args[0] != Inside {
		return
	}
	runtime.LockOSThread() // capabilities and filters are a thread's
	syscall.CloseOnExec(channelFD)
	syscall.CloseOnExec(programFD)
	channel := os.NewFile(channelFD, "channel")
	err := become(channel)
	fmt.Fprint(channel, err)
	os.Exit(125)
}

// become sets up what can be set up in the sandbox's own namespaces only, gives up all rights, and runs the program.
// The machine's files are out of sight before the first path of the image's choice is opened.
func become(channel *os.File) error {
	var o order
	if err := json.NewDecoder(channel).Decode(&o); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}

	if !o.Assembled {
		root, err := o.assemble()
		if err == nil {
			err = unix.Fchdir(root)
		}
		if err != nil {
			return err
		}
	}

	if err := enterRoot(); err != nil {
		return err
	}
	root, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	t := tree{fd: root}
	if err := o.offer(t, channel); err != nil {
		return err
	}

	if err := t.enter(o.Dir); err != nil {
		return fmt.Errorf("enter working directory: %w", err)
	}
	program, err := o.program()
	if err != nil {
		return err
	}

	if err := o.drop(); err != nil {
		return fmt.Errorf("become user %d: %w", o.User, err)
	}
	return fmt.Errorf("run %q: %w", program, syscall.Exec(program, o.Command, o.Env))
}

// enterRoot makes the working directory the root, with a /proc of its own processes, and leaves the machine's root.
func enterRoot() error {
	// A mount that was made outside is locked, and cannot become the root itself.
	root, err := copyOf(unix.AT_FDCWD, ".", 0)
	if err != nil {
		return fmt.Errorf("take over the root: %w", err)
	}
	if err := unix.MoveMount(root, "", unix.AT_FDCWD, ".", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("take over the root: %w", err)
	}
	if err := unix.Fchdir(root); err != nil {
		return err
	}

	if err := mountProc(tree{fd: root}); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}

	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	return unix.Chdir("/")
}

// What a runtime of containers takes out of sight in /proc, and what it makes read-only. Root of the machine may write
// to /proc/sys/kernel/core_pattern in any namespace, which is a program that the machine then runs.
var (
	masked = []string{"acpi", "asound", "interrupts", "kcore", "keys", "latency_stats", "sched_debug", "scsi",
		"timer_list", "timer_stats"}
	readOnly = []string{"bus", "driver", "fs", "irq", "sys", "sysrq-trigger"}
)

// mountProc mounts /proc. The kernel allows it while that of the machine is in sight as a whole, which it is not in
// most containers.
func mountProc(t tree) error {
	const attributes = noSurprises | unix.MOUNT_ATTR_NOEXEC
	proc, err := fileSystem("proc", nil, attributes)
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: run it outside of containers, or in one whose /proc has nothing masked", err)
	}
	if err != nil {
		return err
	}

	point, err := t.point("/proc", true)
	if err != nil {
		return err
	}
	if err := attach(proc, point); err != nil {
		return err
	}

	// Namespaces of users lead to most of what a kernel does for root alone.
	if err := write(proc, "sys/user/max_user_namespaces", "0"); err != nil {
		return fmt.Errorf("forbid user namespaces: %w", err)
	}

	for _, name := range readOnly {
		same := func() (int, error) { return copyOf(proc, name, attributes|unix.MOUNT_ATTR_RDONLY) }
		if err := cover(proc, name, same); err != nil {
			return fmt.Errorf("make %s read-only: %w", name, err)
		}
	}
	for _, name := range masked {
		if err := cover(proc, name, func() (int, error) { return nothing(proc, name) }); err != nil {
			return fmt.Errorf("mask %s: %w", name, err)
		}
	}
	return nil
}

func write(at int, name, text string) error {
	fd, err := unix.Openat(at, name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte(text))
	return errors.Join(err, unix.Close(fd))
}

// cover mounts over what has that name. Kernels differ in what they have.
func cover(at int, name string, with func() (int, error)) error {
	point, err := unix.Openat(at, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	mount, err := with()
	if err != nil {
		return err
	}
	return attach(mount, point)
}

// nothing is an empty directory or, in place of a file, /dev/null.
func nothing(at int, name string) (int, error) {
	var stat unix.Stat_t
	if err := unix.Fstatat(at, name, &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return -1, err
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fileSystem("tmpfs", map[string]string{"size": "4k", "mode": "0555"}, noSurprises|unix.MOUNT_ATTR_RDONLY)
	}
	return copyOf(unix.AT_FDCWD, "/dev/null", 0) // still the machine's
}

// offer sends the caller what it is to keep, and the socket that it is to serve.
func (s Spec) offer(t tree, channel *os.File) error {
	var fds []int
	for _, name := range s.Keep {
		fd, err := t.open(name, unix.O_RDONLY|unix.O_NONBLOCK)
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}

	if !s.Network {
		if err := loopback(); err != nil {
			return fmt.Errorf("bring the loopback interface up: %w", err)
		}
		if s.Listen != "" {
			fd, err := listen(s.Listen)
			if err != nil {
				return fmt.Errorf("listen on %s: %w", s.Listen, err)
			}
			fds = append(fds, fd)
		}
	}

	if len(fds) == 0 {
		return nil
	}
	if err := unix.Sendmsg(int(channel.Fd()), []byte("\n"), unix.UnixRights(fds...), nil, 0); err != nil {
		return fmt.Errorf("send descriptors: %w", err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return nil
}

func loopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(socket)

	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo)
}

func listen(address string) (int, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Is4() {
		return -1, &net.AddrError{Err: "no IPv4 address and port", Addr: address}
	}
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}

	err = unix.Bind(socket, &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()})
	if err == nil {
		err = unix.Listen(socket, unix.SOMAXCONN)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(socket))
	}
	return socket, nil
}

// enter changes the directory, by no link of /proc.
func (t tree) enter(dir string) error {
	fd, err := t.open(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fchdir(fd), unix.Close(fd))
}

func (s Spec) program() (string, error) {
	if len(s.Command) == 0 {
		return "", errors.New("there is no program to run: the image has neither an entrypoint nor a command")
	}
	for _, v := range s.Env { // the last one counts
		if path, is := strings.CutPrefix(v, "PATH="); is {
			os.Setenv("PATH", path)
		}
	}

	program, err := exec.LookPath(s.Command[0])
	if err != nil {
		return "", fmt.Errorf("find program: %w", err)
	}
	return program, nil
}

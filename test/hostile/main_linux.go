// Command hostile is the program of hostile images: each of its attacks tries one way out of a sandbox. It prints
// "through: " and what it reached, or "held: " and why not.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

var errHeld = errors.New("there is no way")

// attacks return nil if they went through.
var attacks = map[string]func(args []string) error{
	"nothing": func([]string) error { return errHeld },
	// open opens files for writing, and writes nothing.
	"open": func(args []string) error {
		return any(args, func(name string) error { return openFor(name, unix.O_WRONLY) })
	},
	"read": func(args []string) error {
		return any(args, func(name string) error { return openFor(name, unix.O_RDONLY) })
	},
	"create": func(args []string) error {
		return any(args, func(name string) error { return os.WriteFile(name, []byte("planted"), 0o644) })
	},
	// write writes to what is the sandbox's own, if that is all that it is.
	"write": func(args []string) error {
		return errors.Join(errHeld, os.WriteFile(args[0], []byte("planted"), 0o644))
	},
	"mount": func([]string) error { return unix.Mount("x", "/mnt", "tmpfs", 0, "") },
	"userns": func([]string) error {
		return again("ok", &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER})
	},
	// fresh-proc mounts another /proc in a namespace in which it is root, with nothing read-only in it.
	"fresh-proc": func([]string) error {
		id := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		gid := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		return again("mount-proc", &syscall.SysProcAttr{UidMappings: id, GidMappings: gid,
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS})
	},
	"mount-proc": func([]string) error {
		if err := unix.Mount("proc", "/mnt", "proc", 0, ""); err != nil {
			return err
		}
		return openFor("/mnt/sys/kernel/core_pattern", unix.O_WRONLY)
	},
	"ok": func([]string) error { return nil },
	// unmount takes away what covers parts of /proc.
	"unmount": func(args []string) error {
		return any(args, func(name string) error { return unix.Unmount(name, unix.MNT_DETACH) })
	},
	"remount": func(args []string) error {
		return any(args, func(name string) error { return unix.Mount("", name, "", unix.MS_REMOUNT|unix.MS_BIND, "") })
	},
	// key reads a key of the caller's session by its number.
	"key": func(args []string) error {
		id, _ := strconv.Atoi(args[0])
		text := make([]byte, 64)
		n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, text, 0)
		if err != nil {
			return err
		}
		fmt.Printf("%q ", text[:n])
		return nil
	},
	"find-key": func(args []string) error {
		_, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", args[0], 0)
		return err
	},
	"add-key": func([]string) error {
		_, err := unix.AddKey("user", "flex-planted", []byte("x"), unix.KEY_SPEC_USER_KEYRING)
		return err
	},
	"list-keys": func(args []string) error {
		text, err := os.ReadFile("/proc/keys")
		if err == nil && !bytes.Contains(text, []byte(args[0])) {
			err = errHeld
		}
		return err
	},
	// kill ends all processes that it sees, by one call, and then one of the machine's by its number.
	"kill": func(args []string) error {
		_ = unix.Kill(-1, unix.SIGKILL)
		pid, _ := strconv.Atoi(args[0])
		return unix.Kill(pid, unix.SIGKILL)
	},
	"ptrace": func(args []string) error {
		runtime.LockOSThread()
		pid, _ := strconv.Atoi(args[0])
		return unix.PtraceAttach(pid)
	},
	// see looks for a process of the machine by its command line.
	"see": func(args []string) error {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, name := range lines {
			if text, _ := os.ReadFile(name); !strings.Contains(name, "/"+strconv.Itoa(os.Getpid())+"/") && bytes.Contains(text, []byte(args[0])) {
				return nil
			}
		}
		return errHeld
	},
	"dial": func(args []string) error {
		connection, err := net.DialTimeout(args[0], args[1], 2*time.Second)
		if err == nil {
			connection.Close()
		}
		return err
	},
	"mknod": func(args []string) error {
		major, _ := strconv.Atoi(args[0])
		minor, _ := strconv.Atoi(args[1])
		if err := unix.Mknod("/tmp/device", unix.S_IFBLK|0o666, int(unix.Mkdev(uint32(major), uint32(minor)))); err != nil {
			return err
		}
		return openFor("/tmp/device", unix.O_RDONLY)
	},
	"setuid": func([]string) error {
		if os.Geteuid() == 0 {
			return errors.New("it is root before")
		}
		return run("/setuid", "is-root", nil)
	},
	"is-root": func([]string) error {
		if os.Geteuid() != 0 {
			return errHeld
		}
		return nil
	},
	// flood prints so many MiB, on both.
	"flood": func(args []string) error {
		mebibytes, _ := strconv.Atoi(args[0])
		block := bytes.Repeat([]byte("flood 0123456789\n"), 1<<16)[:1<<20]
		for i := range mebibytes {
			if _, err := []*os.File{os.Stdout, os.Stderr}[i%2].Write(block); err != nil {
				return err
			}
		}
		return errHeld
	},
	// fill writes so many MiB to a file.
	"fill": func(args []string) error {
		mebibytes, _ := strconv.Atoi(args[1])
		file, err := os.OpenFile(args[0], os.O_CREATE|os.O_WRONLY, 0o666)
		if err != nil {
			return err
		}
		block := make([]byte, 1<<20)
		for range mebibytes {
			if _, err := file.Write(block); err != nil {
				return err
			}
		}
		return nil
	},
	// sparse makes a file of that many MiB that has nothing in it.
	"sparse": func(args []string) error {
		mebibytes, _ := strconv.Atoi(args[1])
		return errors.Join(errHeld, os.Truncate(args[0], int64(mebibytes)<<20))
	},
	// locked leaves directories that only root can remove.
	"locked": func(args []string) error {
		name := fmt.Sprint(args[0], "/", os.Getenv("FLEX_PV_NAME"), "-", time.Now().UnixNano())
		return errors.Join(errHeld, os.MkdirAll(name+"/a/b/c", 0o700), os.Symlink("/etc", name+"/a/etc"), os.Chmod(name+"/a/b", 0), os.Chmod(name+"/a", 0))
	},
	// same tells whether a descriptor is a file of the machine.
	"same": func(args []string) error {
		fd, _ := strconv.Atoi(args[0])
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || fmt.Sprint(stat.Dev, ":", stat.Ino) != args[1] {
			return errors.Join(errHeld, err)
		}
		return nil
	},
	"chroot": func([]string) error { return unix.Chroot("/tmp") },
	"handle": func([]string) error {
		at, err := unix.Open("/", unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(at, unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0}), unix.O_RDONLY)
		return err
	},
	// descriptor looks at the directories that were open when the program started.
	"descriptor": func([]string) error {
		for fd := 3; fd < 64; fd++ {
			var stat unix.Stat_t
			if unix.Fstat(fd, &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR && unix.Faccessat(fd, "secret", unix.F_OK, 0) == nil {
				return nil
			}
		}
		return errHeld
	},
	// fork makes processes until there are too many for a laptop.
	"fork": func(args []string) error {
		want, _ := strconv.Atoi(args[0])
		for range want {
			pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0)
			if errno != 0 {
				return errno
			}
			for pid == 0 {
				_, _, _ = syscall.RawSyscall(unix.SYS_PPOLL, 0, 0, 0) // until the namespace ends
			}
		}
		return nil
	},
	// dump ends by a signal that starts the machine's core_pattern.
	"dump": func([]string) error {
		var limit unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
			return err
		}
		if limit.Max == 1 { // which the kernel takes for "no program either"
			return errHeld
		}
		return nil
	},
	"bpf": func([]string) error {
		var attributes [128]byte
		_, _, errno := unix.Syscall(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attributes)), 0)
		if errno == unix.EPERM || errno == unix.ENOSYS {
			return errno
		}
		return nil
	},
	"hostname": func([]string) error { return unix.Sethostname([]byte("hostile")) },
	// replace puts something else where the caller will read.
	"replace": func(args []string) error {
		if err := os.Remove(args[0]); err != nil {
			return err
		}
		return os.Symlink(args[1], args[0])
	},
	"environment": func(args []string) error {
		if os.Getenv(args[0]) == "" {
			return errHeld
		}
		return nil
	},
	// here reads relative to the working directory.
	"here": func(args []string) error { return openFor(args[0], unix.O_RDONLY) },
	"capabilities": func([]string) error {
		text, err := os.ReadFile("/proc/self/status")
		for _, set := range []string{"CapEff", "CapPrm", "CapInh", "CapAmb"} {
			_, value, _ := strings.Cut(string(text), set+":\t")
			value, _, _ = strings.Cut(value, "\n")
			if bits, _ := strconv.ParseUint(value, 16, 64); bits&^(1<<unix.CAP_CHOWN|1<<unix.CAP_DAC_OVERRIDE|1<<unix.CAP_FOWNER) != 0 {
				fmt.Print(set+" ", value, " ")
				return nil
			}
		}
		return errors.Join(errHeld, err)
	},
}

func any(args []string, attack func(string) error) error {
	all := errHeld
	for _, arg := range args {
		err := attack(arg)
		if err == nil {
			fmt.Print(arg, " ")
			return nil
		}
		all = errors.Join(all, err)
	}
	return all
}

func openFor(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return unix.Close(fd)
}

func again(attack string, attributes *syscall.SysProcAttr) error {
	return run("/payload", attack, attributes)
}

func run(program, attack string, attributes *syscall.SysProcAttr) error {
	process, err := os.StartProcess(program, []string{program, attack},
		&os.ProcAttr{Sys: attributes, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	state, err := process.Wait()
	if err == nil && state.ExitCode() != 0 {
		err = errHeld
	}
	return err
}

func main() {
	if len(os.Args) < 2 || attacks[os.Args[1]] == nil {
		fmt.Printf("no attack: %q\n", os.Args)
		os.Exit(2)
	}
	if err := attacks[os.Args[1]](os.Args[2:]); err != nil {
		say("held: " + strings.ReplaceAll(err.Error(), "\n", "; "))
		os.Exit(1)
	}
	say("through: " + os.Args[1])
}

// say prints, and writes to a file of the caller's if there is one.
func say(text string) {
	fmt.Println(text)
	if file, err := os.OpenFile("/evidence/log", os.O_APPEND|os.O_WRONLY, 0); err == nil {
		fmt.Fprintln(file, os.Getuid(), text)
		file.Close()
	}
}

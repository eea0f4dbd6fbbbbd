package sandbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ofRoot are the capabilities that a pod of root's keeps.
const ofRoot = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

const lastCapabilityAt = "/proc/sys/kernel/cap_last_cap"

// maxProcesses is the number of processes and threads that a sandbox may have.
const maxProcesses = 1024

// drop gives up all that a provisioner pod does not have. Capabilities themselves are lost when another program is run:
// of root's only those in the bounding set stay, of other users' none.
func (o order) drop() error {
	last := unix.CAP_LAST_CAP
	if text, err := os.ReadFile(lastCapabilityAt); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil {
			last = n
		}
	}

	// What this process or its caller has open is not the program's.
	if err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close descriptors: %w", err)
	}

	// The keyrings of the caller's session have his tickets and passphrases.
	if _, err := unix.KeyctlInt(unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0); err != nil && err != unix.ENOSYS {
		return fmt.Errorf("leave the session's keyring: %w", err)
	}

	for resource, limit := range map[int]uint64{
		unix.RLIMIT_NPROC: maxProcesses,
		unix.RLIMIT_CORE:  1, // 0 would still start a core_pattern that is a program
	} {
		if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return fmt.Errorf("limit resources: %w", err)
		}
	}
	syscall.Umask(0o022)

	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("drop ambient capabilities: %w", err)
	}
	for capability := range last + 1 {
		if o.User != 0 || ofRoot&(1<<capability) == 0 {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(capability), 0, 0, 0); err != nil {
				return fmt.Errorf("drop capabilities: %w", err)
			}
		}
	}
	if err := o.become(); err != nil {
		return err
	}

	// Root would keep what is inheritable, whatever the bounding set is, and gets nothing new.
	kept := [2]unix.CapUserData{}
	if o.User == 0 {
		kept[0] = unix.CapUserData{Effective: ofRoot, Permitted: ofRoot}
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capset(&header, &kept[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}

	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return filter()
}

// become changes the user, where the sandbox has more than one.
func (o order) become() error {
	if !o.Assembled {
		return nil
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(o.User); err != nil {
		return err
	}
	return syscall.Setuid(o.User)
}

// machines are the architectures by their numbers in filters.
var machines = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// refused are system calls that no program of a container needs and that reach what has no namespace, or much of the
// kernel. Runtimes of containers refuse them by default too.
var refused = []uint32{
	unix.SYS_ADD_KEY, unix.SYS_KEYCTL, unix.SYS_REQUEST_KEY, // keys of the caller's other programs
	unix.SYS_BPF, unix.SYS_IO_URING_SETUP, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
}

// filter has the kernel refuse system calls, and all of other architectures', whose numbers differ.
func filter() error {
	machine, known := machines[runtime.GOARCH]
	if !known {
		return nil
	}
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		x32    = 0x40000000 // the first number of another way to call, on amd64
	)

	n := uint8(len(refused))
	program := []unix.SockFilter{
		{Code: load, K: 4}, // the architecture
		{Code: equal, K: machine, Jf: n + 3},
		{Code: load, K: 0}, // the number
		{Code: least, K: x32, Jt: n + 1},
	}
	for i, number := range refused {
		program = append(program, unix.SockFilter{Code: equal, K: number, Jt: n - uint8(i)})
	}

	program = append(program,
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
	all := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&all)), 0, 0)
}

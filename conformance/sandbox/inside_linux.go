package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Enter does not return in a process that Start started, and does nothing in any other. Call it first in main.
func Enter() {
	if len(os.Args) != 1 || os.Args[0] != Inside {
		return
	}
	runtime.LockOSThread() // capabilities are a thread's
	fault := os.NewFile(4, "fault")
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	err := become(os.NewFile(3, "spec"))
	fmt.Fprint(fault, err)
	os.Exit(125)
}

func become(file *os.File) error {
	var spec Spec
	if err := json.NewDecoder(file).Decode(&spec); err != nil {
		return fmt.Errorf("read what to run: %w", err)
	}
	if err := spec.mountAll(); err != nil {
		return err
	}
	dir := spec.Dir
	if dir == "" {
		dir = "/"
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("enter working directory: %w", err)
	}
	program, err := spec.program()
	if err != nil {
		return err
	}
	if err := spec.drop(); err != nil {
		return fmt.Errorf("become user %d: %w", spec.User, err)
	}
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, spec.Command, spec.Env))
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

// old is the path of the machine's root while mounts are made from it.
const old = "/.flex-provisioner-old"

// mountAll makes the root an overlay whose upper layer is in memory, so that mount points can be created in it.
func (s Spec) mountAll() error {
	others, err := s.otherMounts()
	if err != nil {
		return err
	}
	resolv, _ := os.ReadFile("/etc/resolv.conf") // may lead into /run; names are then not resolved
	if err := s.pivot(); err != nil {
		return err
	}
	for _, m := range append(append(others, devices()...), s.Mounts...) {
		if err := m.mount(); err != nil {
			return err
		}
	}
	if err := mountProc(); err != nil {
		return err
	}
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll("/etc/resolv.conf"); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/resolv.conf", resolv, 0o644); err != nil {
		return err
	}
	if err := syscall.Unmount(old, syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's root: %w", err)
	}
	if err := os.Remove(old); err != nil {
		return err
	}
	if s.Writable {
		return nil
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("make the root read-only: %w", err)
	}
	return nil
}

func (s Spec) pivot() error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := syscall.Mount("scratch", s.Scratch, "tmpfs", 0, "mode=0755"); err != nil {
		return fmt.Errorf("mount scratch: %w", err)
	}
	root, upper, work := filepath.Join(s.Scratch, "root"), filepath.Join(s.Scratch, "upper"), filepath.Join(s.Scratch, "work")
	for _, dir := range []string{root, upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	options := "lowerdir=" + s.Root + ",upperdir=" + upper + ",workdir=" + work
	if s.Mapped {
		options += ",userxattr"
	}
	if err := syscall.Mount("overlay", root, "overlay", 0, options); err != nil {
		return fmt.Errorf("mount overlay over %s: %w", s.Root, err)
	}
	if err := os.Mkdir(root+old, 0o700); err != nil {
		return err
	}
	if err := syscall.PivotRoot(root, root+old); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	return os.Chdir("/")
}

// mount creates the mount point and mounts the source. The target is resolved inside the new root.
func (m Mount) mount() error {
	source := old + m.Source
	info, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
	}
	if info.IsDir() {
		err = os.MkdirAll(m.Target, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(m.Target), 0o755); err == nil {
		var file *os.File
		if file, err = os.OpenFile(m.Target, os.O_CREATE, 0o644); err == nil {
			err = file.Close()
		}
	}
	if err == nil {
		err = syscall.Mount(source, m.Target, "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	if err == nil && m.ReadOnly {
		var flags syscall.Statfs_t
		if err = syscall.Statfs(m.Target, &flags); err == nil {
			const kept = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC // which a user namespace may not take away
			err = syscall.Mount("", m.Target, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY|uintptr(flags.Flags)&kept, "")
		}
	}
	if err != nil {
		return fmt.Errorf("mount %s at %s: %w", m.Source, m.Target, err)
	}
	return nil
}

// otherMounts lists the file systems below the machine's root, which an overlay does not show, without those that the sandbox mounts itself.
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
			mounts = append(mounts, Mount{fields[4], fields[4], true})
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

func devices() []Mount {
	var mounts []Mount
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		mounts = append(mounts, Mount{"/dev/" + name, "/dev/" + name, false})
	}
	return mounts
}

// mountProc mounts /proc. It falls back to that of the machine if the kernel does not allow a new one, as inside other containers.
func mountProc() error {
	if err := os.MkdirAll("/proc", 0o755); err != nil {
		return err
	}
	err := syscall.Mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC, "")
	if err != nil {
		err = syscall.Mount(old+"/proc", "/proc", "", syscall.MS_BIND|syscall.MS_REC, "")
	}
	if err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(to, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that was started in a sandbox.
type Process struct {
	// Listener is at the address Spec.Listen in the sandbox's own network. It is nil without one.
	Listener net.Listener

	cmd   *exec.Cmd
	start time.Time
	kept  map[string]*os.File
	ended chan struct{}
}

// Umask sets the umask of this process to that of containers, so that whoever has to can read what is laid out for a
// sandbox.
func Umask() { syscall.Umask(0o022) }

// Start starts a program. It returns once the program itself runs, or with the error that prevented it. Call Wait and
// then Close.
func Start(spec Spec, out Output) (*Process, error) {
	p := &Process{kept: map[string]*os.File{}, ended: make(chan struct{})}
	done := make(chan error)
	go func() {
		// The thread gets mounts that nobody else sees. It ends with the goroutine, and not before the program, which
		// it would take along.
		runtime.LockOSThread()
		err := p.run(spec, out)
		done <- err
		if err == nil {
			<-p.ended
		}
	}()
	if err := <-done; err != nil {
		p.Close()
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	return p, nil
}

func (p *Process) run(spec Spec, out Output) error {
	switch {
	case spec.Root == "/" && !asRoot():
		return errors.New("who is not root can run images only, since the kernel lays nothing over the machine's own root for him: " +
			"run it as root, or put the program into an image")
	case spec.HostUsers && !asRoot():
		return errors.New("who is not root has no users of the machine to give: run it as root, or without host users")
	}

	self, err := program()
	if err != nil {
		return err
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	channel, inside := os.NewFile(uintptr(ends[0]), "channel"), os.NewFile(uintptr(ends[1]), "inside")
	defer channel.Close()
	defer inside.Close()

	o := order{Spec: spec, Assembled: asRoot()}
	if o.Assembled {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("make a mount namespace: %w", err)
		}
		root, err := spec.assemble()
		if err != nil {
			return err
		}
		defer unix.Close(root)
		if err := unix.Fchdir(root); err != nil {
			return err
		}
	}

	p.cmd = &exec.Cmd{Path: fmt.Sprintf("/proc/self/fd/%d", programFD), Args: []string{Inside},
		Stdout: out.Stdout, Stderr: out.Stderr,
		ExtraFiles: []*os.File{inside, self}, SysProcAttr: spec.attributes()}
	err = p.cmd.Start()
	inside.Close()
	if err != nil {
		return fmt.Errorf("%w; it needs Linux 5.14, and root or user namespaces", err)
	}

	err = json.NewEncoder(channel).Encode(o)
	fault, receiveErr := p.receive(channel, spec) // ends as soon as the program runs
	if err = errors.Join(err, receiveErr); err == nil && fault != "" {
		err = errors.New(fault)
	}
	if err != nil {
		p.Kill()
		_ = p.cmd.Wait()
		return err
	}
	p.start = time.Now()
	return nil
}

// attributes are new namespaces, of users too. The process inside has the capabilities in them that it needs before it
// drops them.
func (s Spec) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS | syscall.CLONE_NEWCGROUP,
		Pdeathsig:                  syscall.SIGKILL,
		Setsid:                     true,
		UidMappings:                s.mapping(os.Geteuid()),
		GidMappings:                s.mapping(os.Getegid()),
		GidMappingsEnableSetgroups: asRoot(),
		AmbientCaps: []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_SETUID, unix.CAP_SETGID,
			unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE},
	}
	if !s.Network {
		a.Cloneflags |= syscall.CLONE_NEWNET
	}
	return a
}

// program is a copy of the running program in memory that nobody can change. A program of the sandbox that is, or is
// interpreted by, /proc/self/exe is then no way to the file on the machine.
var program = sync.OnceValues(func() (*os.File, error) {
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer self.Close()

	flags := unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(Inside, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(Inside, flags)
	}
	if err != nil {
		return nil, fmt.Errorf("copy this program: %w", err)
	}

	file := os.NewFile(uintptr(fd), Inside)
	if _, err := io.Copy(file, self); err != nil {
		return nil, errors.Join(fmt.Errorf("copy this program: %w", err), file.Close())
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(fmt.Errorf("copy this program: %w", err), file.Close())
	}
	return file, nil
})

// receive reads what the process inside sends until the program runs: descriptors, and the error that keeps it from
// running.
func (p *Process) receive(channel *os.File, spec Spec) (fault string, err error) {
	text, rights := make([]byte, 4096), make([]byte, unix.CmsgSpace(64))
	for {
		n, of, _, _, err := unix.Recvmsg(int(channel.Fd()), text, rights, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return fault, err
		}
		if of > 0 {
			if err := p.keep(rights[:of], spec); err != nil {
				return fault, err
			}
			continue // the text is there because there has to be one
		}
		fault += string(text[:n])
	}
}

// keep takes the descriptors in the order in which they are sent.
func (p *Process) keep(rights []byte, spec Spec) error {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return err
	}
	for _, message := range messages {
		fds, err := unix.ParseUnixRights(&message)
		if err != nil {
			return err
		}
		for i, fd := range fds {
			file := os.NewFile(uintptr(fd), "of the sandbox")
			if i < len(spec.Keep) {
				p.kept[spec.Keep[i]] = file
				continue
			}
			p.Listener, err = net.FileListener(file)
			if err = errors.Join(err, file.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Kill kills the program and all processes that it started.
func (p *Process) Kill() { _ = p.cmd.Process.Kill() }

// Terminate sends SIGTERM, to the first process only, as the kubelet does.
func (p *Process) Terminate() { _ = p.cmd.Process.Signal(syscall.SIGTERM) }

// Wait kills the program when ctx ends.
func (p *Process) Wait(ctx context.Context) (Exit, error) {
	stop := context.AfterFunc(ctx, p.Kill)
	defer stop()
	err := p.cmd.Wait()
	close(p.ended)

	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		return Exit{}, fmt.Errorf("wait for sandbox: %w", err)
	}

	exit := Exit{Code: p.cmd.ProcessState.ExitCode(), Took: time.Since(p.start)}
	if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Code, exit.Signaled = 128+int(status.Signal()), true
	}
	return exit, nil
}

// Tail returns the end of a file of Spec.Keep, of at most max bytes, whatever the program did to it.
func (p *Process) Tail(name string, max int64) ([]byte, error) {
	file := p.kept[name]
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: it is no file", name)
	}

	text := make([]byte, min(info.Size(), max))
	n, err := file.ReadAt(text, info.Size()-int64(len(text)))
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return text[:n], err
}

// Has reports whether a directory of Spec.Keep has an entry of that name.
func (p *Process) Has(directory, name string) bool {
	var stat unix.Stat_t
	return unix.Fstatat(int(p.kept[directory].Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) == nil
}

// Close lets go of what was kept.
func (p *Process) Close() {
	for _, file := range p.kept {
		file.Close()
	}
	if p.Listener != nil {
		p.Listener.Close()
	}
}

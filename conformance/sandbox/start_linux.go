package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a program that was started in a sandbox.
type Process struct {
	cmd   *exec.Cmd
	start time.Time
}

// Start starts a program. It returns once the program itself runs, or with the error that prevented it.
func Start(spec Spec, out Output) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	specRead, specWrite, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	defer specRead.Close()
	faultRead, faultWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start sandbox: %w", err), specWrite.Close())
	}
	defer faultRead.Close()
	attributes, mapped := namespaces(spec.User)
	spec.Mapped = mapped
	if mapped && spec.Root == "/" {
		return nil, errors.Join(errors.New("start sandbox: who is not root can run images only, since the kernel lays nothing over the machine's own root for him: run it as root, or put the program into an image"),
			specWrite.Close(), faultWrite.Close())
	}
	cmd := &exec.Cmd{Path: self, Args: []string{Inside}, Stdout: out.Stdout, Stderr: out.Stderr,
		ExtraFiles: []*os.File{specRead, faultWrite}, SysProcAttr: attributes, Dir: "/"}
	err = cmd.Start()
	faultWrite.Close()
	if err != nil {
		specWrite.Close()
		return nil, fmt.Errorf("start sandbox: %w; it needs Linux, and root or user namespaces", err)
	}
	p := &Process{cmd, time.Now()}
	err = json.NewEncoder(specWrite).Encode(spec)
	specWrite.Close()
	fault, _ := io.ReadAll(faultRead) // ends as soon as the program runs
	p.start = time.Now()
	if err == nil && len(fault) == 0 {
		return p, nil
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return nil, fmt.Errorf("start sandbox: %w", errors.Join(err, errors.New(string(fault))))
}

// namespaces are new namespaces for mounts, processes and names. Without root they need a user namespace, in which the caller is the
// program's user.
func namespaces(user int) (attributes *syscall.SysProcAttr, mapped bool) {
	a := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if os.Geteuid() == 0 {
		return a, false
	}
	a.Cloneflags |= syscall.CLONE_NEWUSER
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getegid(), Size: 1}}
	a.AmbientCaps = []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SYS_ADMIN}
	return a, true
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// process is the dispatcher's own program, as it is shipped.
type process struct {
	cmd     *exec.Cmd
	address string
	exited  chan struct{}
	log     string
}

// startDispatcher starts it and returns when it is ready.
func startDispatcher(ctx context.Context, p *plane) (*process, error) {
	d, err := launchDispatcher(p)
	if err != nil {
		return nil, err
	}
	if err := d.await(ctx, time.Minute, "dispatcher ready", d.says(ctx, "/readyz", "leading")); err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

// says is a condition: the answer to a path has a text. Before the dispatcher serves there is none.
func (d *process) says(ctx context.Context, path, text string) func() bool {
	return func() bool {
		answer, err := d.get(ctx, path)
		return err == nil && strings.Contains(answer, text)
	}
}

// await waits for a condition, and no longer than the dispatcher runs.
func (d *process) await(ctx context.Context, atMost time.Duration, what string, satisfied func() bool) error {
	ctx, cancel := within(ctx, atMost, what)
	defer cancel()
	err := poll(ctx, 20*time.Millisecond, func(context.Context) (bool, error) {
		select {
		case <-d.exited:
			return false, errors.New("the dispatcher ended")
		default:
			return satisfied(), nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w: see %s", err, d.log)
	}
	return nil
}

func launchDispatcher(p *plane) (*process, error) {
	kubeconfig, err := p.server.KubeconfigOf(dispatcherUser)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	address := listener.Addr().String()
	listener.Close()
	d := &process{address: address, exited: make(chan struct{}), log: filepath.Join(apiserver.Repo(), "bin", "bench-dispatcher.log")}
	d.cmd = exec.Command(filepath.Join(apiserver.Repo(), "bin", "flex-provisioner"), "--kubeconfig", kubeconfig,
		"--http-address", address, "--pod-kube-api", "https://10.96.0.1:443", "--profiling")
	out, err := os.Create(d.log)
	if err != nil {
		return nil, fmt.Errorf("start dispatcher: %w", err)
	}
	defer out.Close()
	d.cmd.Stdout, d.cmd.Stderr = out, out
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start dispatcher: %w", err)
	}
	go func() {
		_ = d.cmd.Wait() // its log says why
		close(d.exited)
	}()
	return d, nil
}

// stop asks, and waits.
func (d *process) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.exited:
	case <-time.After(20 * time.Second):
		_ = d.cmd.Process.Kill()
		<-d.exited
	}
}

func (d *process) get(ctx context.Context, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("get %s: %s", path, response.Status)
	}
	return string(text), err
}

// resident is the memory of the process now, and the most that it had, in bytes.
func (d *process) resident() (now, most int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read the dispatcher's memory: %w", err)
	}
	for what, kilobytes := range map[string]*int64{"VmRSS:": &now, "VmHWM:": &most} {
		_, value, _ := strings.Cut(string(text), what)
		if _, err := fmt.Sscan(value, kilobytes); err != nil {
			return 0, 0, fmt.Errorf("read the dispatcher's memory: %s %w", what, err)
		}
	}
	return now << 10, most << 10, nil
}

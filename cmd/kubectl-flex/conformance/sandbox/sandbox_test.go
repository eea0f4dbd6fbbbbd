//go:build linux

package sandbox_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance/sandbox"
)

func TestMain(m *testing.M) {
	if os.Getenv(reopen) != "" {
		reopenMain()
	}
	os.Exit(func() int {
		code := m.Run()
		if builtPayload.file != "" {
			os.RemoveAll(filepath.Dir(builtPayload.file))
		}
		return code
	}())
}

// shared are directories that every user may enter.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSandbox(t *testing.T) {
	for _, c := range []struct {
		name   string
		spec   sandbox.Spec
		script string
		code   int
		output string
	}{
		{"a user of its own", sandbox.Spec{User: 65532}, "id -u; id -g; grep -E 'Cap(Prm|Eff|Bnd)|NoNewPrivs' /proc/self/status | tr -d '\\t'", 0,
			"65532\n65532\nCapPrm:0000000000000000\nCapEff:0000000000000000\nCapBnd:0000000000000000\nNoNewPrivs:1\n"},
		{"root with three capabilities", sandbox.Spec{}, "id -u; grep -E 'Cap(Prm|Eff|Bnd)' /proc/self/status | tr -d '\\t'", 0,
			"0\nCapPrm:000000000000000b\nCapEff:000000000000000b\nCapBnd:000000000000000b\n"},
		{"the first process", sandbox.Spec{User: 65532}, "echo $$", 0, "1\n"},
		{"the root is read-only", sandbox.Spec{}, "echo x 2>/dev/null > /etc/planted || echo no", 0, "no\n"},
		{"a writable root", sandbox.Spec{Writable: true}, "echo x > /var/tmp/planted && cat /var/tmp/planted", 0, "x\n"},
		{"an exit code", sandbox.Spec{User: 65532}, "exit 64", 64, ""},
		{"a signal", sandbox.Spec{User: 65532}, "sh -c 'kill -9 $$'; exit $?", 137, "Killed\n"},
		{"a mount", sandbox.Spec{User: 65532, Mounts: []sandbox.Mount{{Target: "/var/run/secrets/x/y"}}},
			"echo text > /var/run/secrets/x/y/file && cat /run/secrets/x/y/file", 0, "text\n"},
		{"a read-only mount", sandbox.Spec{User: 65532, Mounts: []sandbox.Mount{{Target: "/opt/x", ReadOnly: true}}},
			"echo text 2>/dev/null > /opt/x/file || echo no", 0, "no\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := c.spec
			spec.Root, spec.Scratch = "/", shared(t)
			spec.Command, spec.Env = []string{"sh", "-c", c.script}, []string{"PATH=/usr/bin:/bin"}
			for i := range spec.Mounts {
				spec.Mounts[i].Source = shared(t)
			}
			var output bytes.Buffer
			process, err := sandbox.Start(spec, sandbox.Output{Stdout: &output, Stderr: &output})
			if err != nil {
				t.Fatal(err)
			}
			defer process.Close()
			exit, err := process.Wait(t.Context())
			if err != nil || exit.Code != c.code || output.String() != c.output {
				t.Errorf("exit %+v, error %v, output:\n%s\nwant code %d, output:\n%s", exit, err, output.String(), c.code, c.output)
			}
			if _, err := os.Stat("/var/tmp/planted"); err == nil {
				t.Error("the machine's own root was written to")
			}
		})
	}
}

// What keeps a program from starting is said, and is no exit code of its.
func TestNoProgram(t *testing.T) {
	spec := sandbox.Spec{Root: "/", Scratch: shared(t), User: 65532, Command: []string{"no-such-program"}, Env: []string{"PATH=/bin"}}
	_, err := sandbox.Start(spec, sandbox.Output{})
	const want = `start sandbox: find program: exec: "no-such-program": executable file not found in $PATH`
	if err == nil || strings.TrimSpace(err.Error()) != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A process that starts has a copy of every open file until its exec. None may keep the root from being read-only.
func TestStartBesideOthers(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	defer others.Wait()
	defer stop()

	for range 100 {
		spec := sandbox.Spec{Root: "/", Scratch: shared(t), Network: true, User: 65532, Command: []string{"true"},
			Env: []string{"PATH=/usr/bin:/bin"}}
		process, err := sandbox.Start(spec, sandbox.Output{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = process.Wait(t.Context())
		process.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

package sdktest

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// killer is sourced before a script that is to be killed.
//
//go:embed killer.sh
var killer string

// MainWithFlexctl is a TestMain for scripts: it builds flexctl, and other programs by their packages, and runs the tests with them on
// the PATH.
func MainWithFlexctl(m *testing.M, others ...string) {
	os.Exit(func() int {
		directory, err := os.MkdirTemp("", "flexctl")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(directory)
		build := exec.Command("go", append([]string{"build", "-o", directory + "/", "github.com/flex-provisioner/flex-provisioner/cmd/flexctl"}, others...)...)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build programs: %v\n%s", err, output)
			return 1
		}
		os.Setenv("PATH", directory+":"+os.Getenv("PATH"))
		return m.Run()
	}())
}

// Killed is the exit code of a script that was killed.
const Killed = -1

// Result is how a script ended.
type Result struct {
	// Code is the exit code, or Killed.
	Code int
	// Output is what it printed, stdout and stderr.
	Output string
}

// RunScript runs a provisioner in a pod, by BusyBox where there is one, else by sh. With killAt above 0 it is killed at
// that point, which is before or after a command that changes something, counted from 1; a script that has fewer points
// ends by itself.
func RunScript(t testing.TB, script string, pod Pod, killAt int) Result {
	t.Helper()
	shell := []string{"sh"}
	if busybox, err := exec.LookPath("busybox"); err == nil {
		shell = []string{busybox, "sh"}
	}
	script, err := filepath.Abs(script)
	if err != nil {
		t.Fatal(err)
	}
	args := append(shell[1:], script)
	if killAt > 0 {
		args = append(shell[1:], "-c", killer+"\n. "+script)
	}
	cmd := exec.CommandContext(t.Context(), shell[0], args...)
	cmd.Env = append(pod.Env(), "PATH="+os.Getenv("PATH"),
		"POINTS="+filepath.Join(t.TempDir(), "points"), "KILL_AT="+strconv.Itoa(killAt))
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return Result{cmd.ProcessState.ExitCode(), output.String()}
}

// Expect checks the exit code and that the output has a text; an empty text is no output at all.
func (r Result) Expect(t testing.TB, code int, text string) {
	t.Helper()
	if r.Code != code || !strings.Contains(r.Output, text) || text == "" && r.Output != "" {
		t.Errorf("exit code %d, output:\n%s\nwant code %d, output:\n%s", r.Code, r.Output, code, text)
	}
}

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

// killer is a script that is sourced before the one that is to be killed.
//
//go:embed killer.sh
var killer string

// MainWithFlexctl is a TestMain for scripts. It builds flexctl and the programs of other packages, and runs the tests with them on the PATH.
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

// Result is the result of a script.
type Result struct {
	// Code is the exit code, or Killed.
	Code int
	// Output is its stdout and stderr together.
	Output string
}

// RunScript runs a provisioner in a pod, by BusyBox if there is one, else by sh. With killAt above 0 the script is killed at that point.
// Points are before and after each command that changes something, and are counted from 1. A script with fewer points ends by itself.
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

// Expect checks the exit code, and that the output contains text. An empty text means that there is no output.
func (r Result) Expect(t testing.TB, code int, text string) {
	t.Helper()
	if r.Code != code || !strings.Contains(r.Output, text) || text == "" && r.Output != "" {
		t.Errorf("exit code %d, output:\n%s\nwant code %d, output:\n%s", r.Code, r.Output, code, text)
	}
}

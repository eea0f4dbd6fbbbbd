package sdk_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

func TestExitCode(t *testing.T) {
	plain := errors.New("disk full")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"nil", nil, 0},
		{"plain", plain, 1},
		{"refused", sdk.Refuse(plain), 64},
		{"not here", sdk.NotHere(plain), 69},
		{"try again", sdk.TryAgain(plain), 75},
		{"wrapped", fmt.Errorf("make it: %w", sdk.NotHere(plain)), 69},
		{"outermost wins", sdk.TryAgain(sdk.Refuse(plain)), 75},
		{"refused nil", sdk.Refuse(nil), 0},
	} {
		if got := sdk.ExitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
		if c.err != nil && !errors.Is(c.err, plain) {
			t.Errorf("%s: %v does not wrap its cause", c.name, c.err)
		}
	}
}

func TestMessage(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"as it is", "pool gold is full", "pool gold is full"},
		{"one line", "a\nb\r\n\tc\x00\x1b[31m\u2028d\u202e ", "a b c [31m d"},
		{"not UTF-8", "a\xffb", "a?b"},
		{"just fits", strings.Repeat("x", 512), strings.Repeat("x", 512)},
		{"too long", strings.Repeat("x", 513), strings.Repeat("x", 509) + "..."},
		{"cut on a rune", "x" + strings.Repeat("é", 300), "x" + strings.Repeat("é", 254) + "..."},
	} {
		got := sdk.Message(errors.New(c.text))
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if len(got) > contract.MaxMessage || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, valid UTF-8: %t", c.name, len(got), utf8.ValidString(got))
		}
	}
}

func TestReport(t *testing.T) {
	pod := sdktest.NewPod(t, sdktest.Provision(nil), nil, nil)
	var stderr bytes.Buffer
	if code := sdk.Report(pod.Root, sdk.Refuse(errors.New("no\nway")), &stderr); code != 64 {
		t.Errorf("exit code %d, want 64", code)
	}
	if got := pod.Message(t); got != "no way" {
		t.Errorf("message %q, want %q", got, "no way")
	}
	if got := stderr.String(); got != "error: no\n  way\n" {
		t.Errorf("stderr %q", got)
	}
	// What a backend said cannot clear a terminal, forge a line of the log or turn its direction.
	stderr.Reset()
	sdk.Report(pod.Root, errors.New("backend: \x1b[2J\rok\u2028\u202e\x07\nerror: \xff"), &stderr)
	if got, want := stderr.String(), "error: backend:  [2J ok   \n  error: ?\n"; got != want {
		t.Errorf("stderr %q, want %q", got, want)
	}
	if got, want := pod.Message(t), "backend: [2J ok error: ?"; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	// A shorter message leaves nothing of a longer one.
	sdk.Report(pod.Root, errors.New("no"), &stderr)
	if got := pod.Message(t); got != "no" {
		t.Errorf("second message %q, want %q", got, "no")
	}
	if code := sdk.Report(pod.Root, nil, &stderr); code != 0 {
		t.Errorf("exit code %d for no error, want 0", code)
	}
}

func TestReportMakesNoTerminationFile(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "dev"), 0o755); err != nil {
		t.Fatal(err)
	}
	if code := sdk.Report(root, errors.New("no"), &bytes.Buffer{}); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	if _, err := os.Stat(filepath.Join(root, contract.TerminationFile)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("termination file: %v, want none", err)
	}
}

func TestLocation(t *testing.T) {
	pod := sdktest.NewPod(t, sdktest.Provision(nil), nil, nil)
	if err := sdk.SetLocation(pod.Root, "project-1"); err != nil || pod.Location(t) != "project-1" {
		t.Errorf("location %q, %v", pod.Location(t), err)
	}
	if err := sdk.SetLocation(t.TempDir(), "project-1"); err != nil {
		t.Errorf("where nobody reads it: %v", err)
	}
	if err := os.Remove(filepath.Join(pod.Root, contract.TerminationFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(pod.Root, contract.TerminationFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := sdk.SetLocation(pod.Root, "project-1"); err == nil || !strings.HasPrefix(err.Error(), "write the location: ") {
		t.Errorf("where it cannot be written: %v", err)
	}
	for _, c := range []struct{ then, now, err string }{
		{"", "project-1", "<nil>"},
		{"project-1", "project-1", "<nil>"},
		{"project-1", "project-2", "an earlier attempt worked in project-1, but the credentials are now for project-2; give back those of the former until nothing of volume pvc-1 is left there"},
	} {
		request := sdk.Request{VolumeName: "pvc-1"}
		request.Location = c.then
		if err := sdk.CheckLocation(request, c.now); errorText(err) != c.err {
			t.Errorf("%q, then %q: %v, want %s", c.then, c.now, err, c.err)
		}
	}
}

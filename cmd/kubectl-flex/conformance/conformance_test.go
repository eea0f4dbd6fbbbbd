package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/conformance"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

func TestMain(m *testing.M) {
	if os.Getenv(conformance.Again) != "" { // a user has no toolchain
		os.Exit(m.Run())
	}
	sdktest.MainWithFlexctl(m)
}

// options are for a provisioner whose storage is at /export.
func options(t *testing.T, subject string) conformance.Options {
	t.Helper()
	flexctl, err := exec.LookPath("flexctl")
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Options{
		Subject: subject, Properties: map[string]string{"nfs-server": "10.0.0.1"}, Storage: []string{"/export"},
		Timeout: 30 * time.Second, Grace: 10 * time.Second, Kills: 4, Flexctl: flexctl,
	}
}

func run(t *testing.T, o conformance.Options) *conformance.Report {
	t.Helper()
	report, err := conformance.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// text is a report as a person reads it.
func text(t *testing.T, report *conformance.Report) string {
	t.Helper()
	var b strings.Builder
	for _, result := range report.Results {
		if err := result.WriteText(&b); err != nil {
			t.Fatal(err)
		}
	}
	return b.String() + report.Summary()
}

// wantPass wants all to pass but the advice that is named.
func wantPass(t *testing.T, report *conformance.Report, but ...string) {
	t.Helper()
	var failed []string
	for _, result := range report.Results {
		if result.Status == conformance.Failed {
			failed = append(failed, result.Name)
		}
	}
	if !report.Passed || !slices.Equal(failed, but) {
		t.Errorf("passed %t, failed %q, want true and %q:\n%s", report.Passed, failed, but, text(t, report))
	}
}

func TestGood(t *testing.T) {
	t.Parallel()
	wantPass(t, run(t, options(t, "testdata/good.sh")))
}

// TestSnapshots: all checks of snapshots run, and pass.
func TestSnapshots(t *testing.T) {
	t.Parallel()
	o := options(t, "testdata/keeping.sh")
	o.Snapshots = true
	report := run(t, o)
	wantPass(t, report)
	ran := 0
	for _, result := range report.Results {
		if result.Status == conformance.Passed && strings.Contains(result.Name+result.Did, "snapshot") {
			ran++
		}
	}
	if ran != 5 {
		t.Errorf("%d checks of snapshots passed, want 5", ran)
	}
}

// A report never shows the secret that it found.
func TestReportsHideSecrets(t *testing.T) {
	t.Parallel()
	if report := text(t, run(t, options(t, "testdata/talkative.sh"))); strings.Contains(report, "flex-conformance-token-") {
		t.Error(report)
	}
}

// What cannot be seen is not passed.
func TestBlind(t *testing.T) {
	t.Parallel()
	o := options(t, filepath.Join(t.TempDir(), "blind.sh"))
	o.Storage = nil
	script := `set -eu
case $FLEX_OPERATION in
provision) echo "nfs: {server: 10.0.0.1, path: /srv/$FLEX_PV_NAME}" | flexctl create-pv ;;
delete) ;;
*) flexctl fail --refuse unknown ;;
esac
`
	if err := os.WriteFile(o.Subject, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	report := run(t, o)
	if report.Passed {
		t.Error("it passed")
	}
	for _, result := range report.Results {
		if result.Name == "delete" && (result.Status != conformance.Skipped || result.Reason != "the kit cannot see the storage: give --storage PATH, or --list COMMAND") {
			t.Errorf("delete: %+v", result)
		}
		if result.Status == conformance.Failed {
			t.Errorf("%s: %+v", result.Name, result)
		}
	}
}

// TestLineEnds: a script with the line ends of Windows is refused as a ConfigMap with it is, before it runs.
func TestLineEnds(t *testing.T) {
	o := options(t, filepath.Join(t.TempDir(), "windows.sh"))
	if err := os.WriteFile(o.Subject, []byte("#!/bin/sh\nset -eu\r\nexit 1\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := conformance.Run(t.Context(), o)
	if want := "read " + o.Subject + ": line 2 ends with a carriage return; save the text with Unix line ends"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestBadOptions(t *testing.T) {
	_, err := conformance.Run(t.Context(), conformance.Options{Subject: "x", Storage: []string{"export"}, Rights: []string{"secrets"},
		Mounts: map[string]string{"run": ".", "/run/none": "none", "export": "."}, Secrets: map[string]string{"A": "x"}, Timeout: time.Millisecond, Grace: time.Second, Only: []string{"delet"}})
	for _, want := range []string{
		`storage[0]: Invalid value: "export": must be an absolute path, as in the pod`,
		`mount[run]: Invalid value: "run": must be an absolute path, as in the pod`,
		`mount[/run/none]: Invalid value: "none": is no directory of this machine`,
		`mount[export]: Invalid value: "export": is storage of the kit's own too: give one of the two`,
		`secret: Invalid value: "A": is no name of a Secret`,
		`allow[0]: Invalid value: "secrets": must be a verb and a resource, such as "get secrets"`,
		`timeout: Invalid value: "1ms": must be whole seconds, at least 1s`,
		`kills: Invalid value: 0: must be at least 1`,
		`check[0]: Unsupported value: "delet": supported values: "provision", "read-only-root"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\nlacks %s", err, want)
		}
	}
}

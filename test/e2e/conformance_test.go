//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// conforms wants a class to pass all checks but those that are not for it.
func (s *scope) conforms(class string, notFor []string, args ...string) {
	s.Helper()
	out, report := s.conformance(append([]string{"--class", class, "--kills", "2"}, args...)...)
	s.Log(out)
	if !report.Passed {
		s.Error("it did not pass")
	}
	for _, result := range report.Results {
		if not := result.Status == conformance.NotApplicable; not != slices.Contains(notFor, result.Name) {
			s.Errorf("check %s: %s", result.Name, result.Status)
		}
	}
}

// conformance runs the kit, and fails unless its exit status is its report's.
func (s *scope) conformance(args ...string) (printed string, report *conformance.Report) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "report.json")
	printed, code := s.flex(kubeconfig(), append([]string{"conformance", "--cluster", "--json", file, "--provisioners-namespace", contract.ProvisionersNamespace}, args...)...)
	text, err := os.ReadFile(file)
	if err != nil {
		s.Fatalf("no report: %v: %s", err, printed)
	}
	report = &conformance.Report{}
	s.ok(json.Unmarshal(text, report))
	if (code == 0) != report.Passed {
		s.Errorf("it ended with %d, and the report says passed %t", code, report.Passed)
	}
	return printed, report
}

// TestConformanceWrong: a provisioner that breaks a rule fails, for this reason.
func TestConformanceWrong(t *testing.T) {
	for _, c := range []struct{ name, provision, check, came, log string }{
		{name: "hasty", provision: "mkdir \"$dir\"\nchmod 0777 \"$dir\"\nsleep 6\n" + makeVolume, check: "provision-killed",
			came: "after 30s it is Pending; the last warning on PersistentVolumeClaim conformance-* is ProvisionerFailed: the container exited with code 1 and left no message (pod *", log: "can't create directory"},
		{name: "talkative", provision: makeDir + "echo \"logging in with $(cat /var/run/secrets/flex-provisioner/*/login)\"\nsleep 2\n" + makeVolume, check: "secrets",
			came: "a line of the class's Secrets is in the log of a provision pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			login := s.name // not the marked Secret, which must not be seen anywhere
			s.secret(login, map[string]string{"login": "login-of-" + login})
			made := s.class(c.name, setting{provision: c.provision, data: map[string]string{"secrets": login}})
			out, report := s.conformance("--class", made.name, "--namespace", s.name, "--timeout", "30s", "--size", "64Mi",
				"--check", "bound", "--check", "provision-killed", "--check", "secrets")
			t.Log(out)
			for _, result := range report.Results {
				if failed := result.Status == conformance.Failed; failed != (result.Name == c.check) {
					t.Errorf("check %s: %s", result.Name, result.Status)
				}
				if result.Name == c.check && !slices.ContainsFunc(result.Findings, func(f conformance.Finding) bool { return like(c.came, f.Came) && strings.Contains(f.Log, c.log) }) {
					t.Errorf("check %s found %+v, want %s with the log %q", result.Name, result.Findings, c.came, c.log)
				}
			}
			s.wait(soon, "nothing left", s.left)
		})
	}
}

// TestConformanceInterrupted: Ctrl-C leaves nothing.
func TestConformanceInterrupted(t *testing.T) {
	s := begin(t)
	c := s.class("slow", setting{provision: makeDir + "sleep 3\n" + makeVolume})
	cmd := exec.CommandContext(t.Context(), programs+"/kubectl-flex", "conformance", "--cluster", "--kubeconfig", kubeconfig(), "--class", c.name, "--size", "64Mi", "--timeout", "60s")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	s.ok(cmd.Start())
	s.wait(patient, "a pod runs", func() string {
		if len(c.runs()) == 0 {
			return "none"
		}
		return ""
	})
	s.ok(cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err == nil {
		t.Errorf("it ended with 0: %s", out.String())
	}
	if !strings.Contains(out.String(), "interrupted: what was made is being removed\n") || strings.Contains(out.String(), "left behind") {
		t.Errorf("it said %s", out.String())
	}
	s.wait(soon, "nothing left", s.left) // which the watches of this test may see a moment later
	s.noNamespaces()
}

// noNamespaces fails if the kit left one.
func (s *scope) noNamespaces() {
	s.Helper()
	list, err := shared.admin.CoreV1().Namespaces().List(s.Context(), metav1.ListOptions{})
	s.ok(err)
	for _, namespace := range list.Items {
		if strings.HasPrefix(namespace.Name, "flex-conformance-") {
			s.Errorf("namespace %s is left", namespace.Name)
		}
	}
}

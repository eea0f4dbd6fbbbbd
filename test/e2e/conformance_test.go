//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/conformance"
	"github.com/flex-provisioner/flex-provisioner/contract"
)

// TestConformance: on a cluster the kit finds nothing wrong with the classes of the examples, and leaves nothing.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		example string
		notFor  []string // checks that do not apply
	}{
		{"hostpath", []string{"used-raw", "secrets"}},
		{"silver", []string{"used-raw", "secrets", "expand"}},
	} {
		t.Run(c.example, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			e := examples[slices.IndexFunc(examples, func(e example) bool { return e.name == c.example })]
			s.classes = append(s.classes, &class{s: s, name: e.name, id: e.name})
			s.later(e.removeClass)
			_, err := kubectl(t.Context(), "apply", "--server-side", "--field-manager="+e.name, "-k", "examples/"+e.name)
			s.ok(err)
			_, err = kubectl(t.Context(), "delete", "--ignore-not-found", "pod/"+e.name, "pvc/"+e.name) // the example's own
			s.ok(err)
			report := s.conforms(e.name, "--timeout", "60s", "--list", "ls "+e.root)
			for _, result := range report.Results {
				if not := result.Status == conformance.NotApplicable; not != slices.Contains(c.notFor, result.Name) {
					t.Errorf("check %s: %s", result.Name, result.Status)
				}
			}
		})
	}
}

// conforms wants a class to pass.
func (s *scope) conforms(class string, args ...string) *conformance.Report {
	s.Helper()
	out, report := s.conformance(buildProgram(s.T, "kubectl-flex"), append([]string{"--class", class, "--kills", "2"}, args...)...)
	s.Log(out)
	if !report.Passed {
		s.Error("it did not pass")
	}
	return report
}

// TestConformanceWrong: a provisioner that breaks a rule fails, for this reason.
func TestConformanceWrong(t *testing.T) {
	plugin := buildProgram(t, "kubectl-flex")
	for _, c := range []struct{ name, provision, check, came, log string }{
		{name: "hasty", provision: "mkdir \"$dir\"\nchmod 0777 \"$dir\"\nsleep 6\n" + makeVolume, check: "provision-killed",
			came: "after 30s it is Pending; the last warning on PersistentVolumeClaim conformance-* is ProvisionerFailed: the container exited with code 1 and left no message (pod *", log: "can't create directory"},
		{name: "talkative", provision: makeDir + "echo \"logging in with $(cat /var/run/secrets/flex-provisioner/*/login)\"\nsleep 2\n" + makeVolume, check: "secrets",
			came: "a line of the class's Secrets is in the log of a provision pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			login := s.login(s.name)
			made := s.class(c.name, setting{provision: c.provision, data: map[string]string{"secrets": login}})
			out, report := s.conformance(plugin, "--class", made.name, "--namespace", s.name, "--timeout", "30s", "--size", "64Mi",
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
	plugin := buildProgram(t, "kubectl-flex")
	s := begin(t)
	c := s.class("slow", setting{provision: makeDir + "sleep 3\n" + makeVolume})
	cmd := exec.CommandContext(t.Context(), plugin, "conformance", "--cluster", "--kubeconfig", kubeconfig(), "--class", c.name, "--size", "64Mi", "--timeout", "60s")
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

// TestConformanceOfTom: what an ordinary user may not see is not checked, and that is not passed.
func TestConformanceOfTom(t *testing.T) {
	plugin := buildProgram(t, "kubectl-flex")
	s := begin(t)
	c := s.class("any", setting{})
	rbac, tomHimself := shared.admin.RbacV1(), []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tom"}}
	_, err := rbac.RoleBindings(s.name).Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tom"},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"}, Subjects: tomHimself}, metav1.CreateOptions{})
	s.ok(err)
	_, err = rbac.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: s.name},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}}}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error {
		return rbac.ClusterRoles().Delete(ctx, s.name, metav1.DeleteOptions{})
	})
	_, err = rbac.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: s.name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: s.name}, Subjects: tomHimself}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error {
		return rbac.ClusterRoleBindings().Delete(ctx, s.name, metav1.DeleteOptions{})
	})
	tom := filepath.Join(repository, ".cluster", "tom.kubeconfig")
	out, report := s.conformanceBy(plugin, tom, "--class", c.name, "--namespace", s.name)
	t.Log(out)
	for _, result := range report.Results {
		if result.Status != conformance.Skipped || !strings.HasPrefix(result.Reason, "not checked: you may not ") {
			t.Errorf("check %s: %s, %s", result.Name, result.Status, result.Reason)
		}
	}
	if report.Passed {
		t.Error("it passed")
	}
}

// login makes a Secret of its own: the marked one must not be seen anywhere.
func (s *scope) login(name string) string {
	s.Helper()
	secrets := shared.admin.CoreV1().Secrets(contract.ProvisionersNamespace)
	_, err := secrets.Create(s.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"login": "login-of-" + name}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return secrets.Delete(ctx, name, metav1.DeleteOptions{}) })
	return name
}

// buildProgram builds the program of the folder cmd/NAME and those beside it, and returns its path.
func buildProgram(t *testing.T, name string, beside ...string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"go", "build", "-o", dir + "/"}
	for _, program := range append(beside, name) {
		args = append(args, "./cmd/"+program)
	}
	if _, err := command(t.Context(), args...); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

func (s *scope) conformance(plugin string, args ...string) (string, *conformance.Report) {
	s.Helper()
	return s.conformanceBy(plugin, kubeconfig(), args...)
}

// conformanceBy runs the kit, and fails unless its exit status is its report's.
func (s *scope) conformanceBy(plugin, kubeconfig string, args ...string) (string, *conformance.Report) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "report.json")
	ctx, cancel := context.WithTimeout(s.Context(), 7*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, plugin, append([]string{"conformance", "--cluster", "--kubeconfig", kubeconfig, "--json", file,
		"--provisioners-namespace", contract.ProvisionersNamespace}, args...)...)
	out, err := cmd.CombinedOutput()
	text, read := os.ReadFile(file)
	if read != nil {
		s.Fatalf("no report: %v: %s", err, out)
	}
	report := &conformance.Report{}
	s.ok(json.Unmarshal(text, report))
	if (err == nil) != report.Passed {
		s.Errorf("it ended with %v, and the report says passed %t", err, report.Passed)
	}
	return string(out), report
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

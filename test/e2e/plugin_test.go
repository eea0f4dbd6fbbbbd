//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/inspect"
)

// plugin is kubectl with the plugin on its PATH.
type plugin struct {
	s    *scope
	path string
	// input is what is typed.
	input string
}

// plugin builds the plugin.
func (s *scope) plugin() plugin {
	s.Helper()
	dir := filepath.Dir(buildProgram(s.T, "kubectl-flex"))
	kubectl, err := filepath.Abs(filepath.Join(repository, ".cluster", "bin", "kubectl"))
	s.ok(err)
	s.ok(os.Symlink(kubectl, filepath.Join(dir, "kubectl")))
	return plugin{s: s, path: dir + ":" + os.Getenv("PATH")}
}

// run runs kubectl flex as the user of a kubeconfig, in the test's namespace.
func (p plugin) run(kubeconfig string, args ...string) (output string, code int) {
	p.s.Helper()
	dir, _, _ := strings.Cut(p.path, ":")
	cmd := exec.CommandContext(p.s.Context(), filepath.Join(dir, "kubectl"), append([]string{"flex", "--kubeconfig", kubeconfig, "-n", p.s.name}, args...)...)
	cmd.Dir, cmd.Env, cmd.Stdin = repository, append(os.Environ(), "PATH="+p.path), strings.NewReader(p.input)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.s.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// says waits until a command prints all of the texts and ends with the code.
func (p plugin) says(kubeconfig string, code int, texts []string, args ...string) string {
	p.s.Helper()
	var last string
	p.s.wait(soon, "kubectl flex "+strings.Join(args, " "), func() string {
		got, ended := p.run(kubeconfig, args...)
		last = got
		if ended != code {
			return fmt.Sprintf("exit code %d: %s", ended, got)
		}
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return "no " + text + ": " + got
			}
		}
		return ""
	})
	return last
}

// TestPlugin: what kubectl flex says of claims in a handful of states, to an administrator and to their user, and what it does.
func TestPlugin(t *testing.T) {
	t.Parallel()
	s := begin(t)
	p := s.plugin()
	admin, err := filepath.Abs(kubeconfig())
	s.ok(err)
	tom := s.tomEdits()
	fails := "echo 'cannot reach 10.0.0.7'\n[ ! -e \"$home/gates/fail\" ] || exit 7\nflexctl fail 'the backend is at lunch'\n"
	for _, state := range []struct {
		name, provision string
		data            map[string]string
		code            int
		// admin and user are what both read.
		admin, user []string
	}{
		{name: "bound", code: 0, admin: []string{"Kubernetes has bound claim and volume", "bound, nothing is left to do"}, user: []string{"bound, nothing is left to do"}},
		{name: "script", provision: fails, code: 4,
			admin: []string{"provision, attempt 0: exit code 1, ProvisionerFailed: the backend is at lunch", "Cause: ProvisionerFailed", "Do:    read the message"},
			user:  []string{"Cause: ProvisionerFailed: the backend is at lunch", "Do:    read the message"}},
		{name: "config", data: map[string]string{"plugin-name": "other.example.com/x"}, code: 4,
			admin: []string{"Cause: ProvisionerConfigMissing", "Do:    create or correct the ConfigMap"}, user: []string{"Cause: ProvisionerConfigMissing"}},
		{name: "node", data: map[string]string{"node-selector": "e2e/nowhere=true"}, code: 4,
			admin: []string{"Now:   provision starting", "Cause: ProvisionerUnschedulable: no node takes the pod"}, user: []string{"Cause: ProvisionerUnschedulable"}},
		{name: "image", data: map[string]string{"image": "registry.invalid/flex-provisioner/no-such-image:1"}, code: 4,
			admin: []string{"Cause: ProvisionerImagePullFailed: image registry.invalid/flex-provisioner/no-such-image:1 cannot be had"}, user: []string{"Cause: ProvisionerImagePullFailed"}},
	} {
		class := s.class(state.name, setting{data: state.data, provision: state.provision})
		c := class.claim(state.name)
		if state.code == 0 {
			c.bound(patient)
			p.releases(admin, class.claim("given-up"))
		}
		t.Logf("%s", p.says(admin, state.code, state.admin, "why", state.name))
		p.says(tom, state.code, append(state.user, "This is what the claim and its events say."), "why", state.name)
		p.says(tom, state.code, []string{state.name}, "status", state.name)
		if state.name == "script" {
			p.retries(admin, tom, c)
		}
	}
	t.Logf("%s", p.says(admin, 0, []string{"ProvisionerUnschedulable", "Policies:    Ok", s.name + "/script"}, "status"))
	p.says(admin, 0, []string{"cannot reach 10.0.0.7"}, "logs", "script")
	p.says(tom, 1, []string{"it takes the right to list pods in namespace flex-provisioners"}, "logs", "script")
	p.says(admin, 0, []string{"No faults."}, "validate", s.name+"-bound")
	rendered := p.says(admin, 0, []string{"kind: Pod"}, "render", s.name+"-bound")
	file := filepath.Join(s.TempDir(), "pod.yaml")
	s.ok(os.WriteFile(file, []byte(rendered), 0o600))
	if _, err := kubectl(s.Context(), "create", "--dry-run=server", "-f", file); err != nil {
		t.Errorf("the pod that render prints is refused: %v", err)
	}
}

// retries asks for an attempt that would follow after 16 seconds or more. The user may not ask.
func (p plugin) retries(admin, tom string, c *claim) {
	p.s.Helper()
	var before int
	p.s.wait(patient, "fifth attempt failed", func() string {
		state, out := p.state(admin, c)
		if before = state.Attempt; before < 4 || state.NextAttempt.IsZero() {
			return out
		}
		return ""
	})
	p.says(tom, 1, []string{"it takes the right to list pods"}, "retry", c.Name)
	began := time.Now()
	p.says(admin, 0, []string{c.Name + " is tried again now, instead of in "}, "retry", c.Name)
	p.s.wait(soon, "next attempt", func() string {
		if state, out := p.state(admin, c); state.Attempt <= before {
			return out
		}
		return ""
	})
	took := time.Since(began)
	p.s.Logf("the next attempt followed %.1f s after it was asked for", took.Seconds())
	if took > 10*time.Second {
		p.s.Errorf("the next attempt followed after %s", took)
	}
}

// releases gives up the storage of a volume that is retained.
func (p plugin) releases(admin string, c *claim) {
	p.s.Helper()
	c.bound(patient)
	p.s.reclaim(c, corev1.PersistentVolumeReclaimRetain)
	p.says(admin, 1, []string{"is Bound, not Released"}, "release", c.volumeName())
	c.delete()
	p.says(admin, 0, []string{"Cause: VolumeRetained"}, "why", c.volumeName())
	p.input = c.volumeName() + "\nno\n"
	p.says(admin, 1, []string{"its reclaim policy is Retain, and becomes Delete", "nothing was changed"}, "release", c.volumeName())
	p.input = c.volumeName() + "\nyes\n"
	p.says(admin, 0, []string{"was asked to remove the storage of volume"}, "release", c.volumeName())
	c.gone(patient)
}

func (p plugin) state(kubeconfig string, c *claim) (state inspect.State, out string) {
	p.s.Helper()
	out, _ = p.run(kubeconfig, "status", c.Name, "-o", "json")
	if err := json.Unmarshal([]byte(out), &state); err != nil {
		return inspect.State{}, out
	}
	return state, out
}

// tomEdits lets the user tom edit the test's namespace, and is his kubeconfig.
func (s *scope) tomEdits() string {
	s.Helper()
	_, err := shared.admin.RbacV1().RoleBindings(s.name).Create(s.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "tom"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tom"}}}, metav1.CreateOptions{})
	s.ok(err)
	file, err := filepath.Abs(filepath.Join(repository, ".cluster", "tom.kubeconfig"))
	s.ok(err)
	return file
}

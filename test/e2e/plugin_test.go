//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestPlugin: what the commands of kubectl flex say to an administrator and to a user, and what they do.
func TestPlugin(t *testing.T) {
	t.Parallel()
	s := begin(t)
	admin, tom := kubeconfig(), s.letTom()
	bound := s.class("bound", setting{})
	bound.claim("bound").bound(patient)
	s.says(tom, 0, []string{"bound"}, "status", "bound")
	s.releases(admin)

	script := s.class("script", setting{provision: "echo 'cannot reach 10.0.0.7'\nflexctl fail 'the backend is at lunch'\n"}).claim("script")
	s.says(tom, 4, []string{"script"}, "status", "script")
	s.says(admin, 4, []string{"Cause: ProvisionerFailed: the backend is at lunch (pod ", "\nNext:  "}, "why", "script")
	s.says(tom, 4, []string{"Cause: ProvisionerFailed: the backend is at lunch (pod ", "\nThis is what the claim and its events say."}, "why", "script")
	s.retries(admin, tom, script)
	t.Logf("%s", s.says(admin, 0, []string{"ProvisionerFailed", "Policies:    Ok", s.name + "/script"}, "status"))
	s.says(admin, 0, []string{"cannot reach 10.0.0.7"}, "logs", "script")
	s.says(tom, 1, []string{"it takes the right to list pods in namespace flex-provisioners"}, "logs", "script")

	rendered := s.says(admin, 0, []string{"kind: Pod"}, "render", bound.name)
	if _, err := kubectl(t.Context(), "create", "--dry-run=server", "-f", s.file("pod.yaml", rendered)); err != nil {
		t.Errorf("the pod that render prints is refused: %v", err)
	}
	out, err := command(t.Context(), "env", "PATH="+programs+":"+os.Getenv("PATH"), ".cluster/bin/kubectl", "flex", "--kubeconfig", admin, "validate", bound.name)
	if err != nil || !strings.Contains(out, "No faults.") {
		t.Errorf("kubectl, which finds the plugin on its PATH, printed %s, %v", out, err)
	}
}

// retries asks for an attempt that would follow after half a minute or more. The user may not ask.
func (s *scope) retries(admin, tom string, c *claim) {
	s.Helper()
	state := func() (state inspect.State, out string) {
		out, _ = s.flex(admin, "status", c.Name, "-o", "json", "-n", s.name)
		if err := json.Unmarshal([]byte(out), &state); err != nil {
			return inspect.State{}, out
		}
		return state, out
	}
	var before inspect.State
	s.wait(patient, "sixth attempt failed", func() string {
		now, out := state()
		if before = now; before.Attempt < 5 || before.NextAttempt.IsZero() {
			return out
		}
		return ""
	})
	s.says(tom, 1, []string{"it takes the right to list pods"}, "retry", c.Name)
	began := time.Now()
	s.says(admin, 0, []string{c.Name + " is tried again now, instead of in "}, "retry", c.Name)
	s.wait(soon, "next attempt", func() string {
		if now, out := state(); now.Attempt <= before.Attempt {
			return out
		}
		return ""
	})
	s.Logf("the next attempt followed %.1f s after it was asked for", time.Since(began).Seconds())
	if time.Now().After(before.NextAttempt) {
		s.Errorf("the next attempt did not follow before %s", before.NextAttempt)
	}
}

// releases gives up the storage of a volume that its class retains. Until then the volume and its storage stay.
func (s *scope) releases(admin string) {
	s.Helper()
	retain := corev1.PersistentVolumeReclaimRetain
	c := s.class("retain", setting{terms: storagev1.StorageClass{ReclaimPolicy: &retain}}).claim("given-up")
	c.bound(patient)
	s.says(admin, 1, []string{"is Bound, not Released"}, "release", c.volumeName())
	c.delete()
	s.says(admin, 0, []string{"Cause: VolumeRetained"}, "why", c.volumeName())
	out, code := s.typed(c.volumeName()+"\nno\n", admin, "release", c.volumeName())
	if lack := unsaid(out, code, 1, []string{"its reclaim policy is Retain, and becomes Delete", "nothing was changed"}); lack != "" {
		s.Error(lack)
	}
	c.ran(contract.Delete, 0)
	if !exists(c.directory()) {
		s.Error("its storage is gone")
	}
	out, code = s.typed(c.volumeName()+"\nyes\n", admin, "release", c.volumeName())
	if lack := unsaid(out, code, 0, []string{"was asked to remove the storage of volume"}); lack != "" {
		s.Error(lack)
	}
	c.gone(patient)
	c.ran(contract.Delete, 1)
}

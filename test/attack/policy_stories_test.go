//go:build e2e

package attack

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// noticed is how long the dispatcher may take to see that a policy is not as it was shipped.
const noticed = 10 * time.Second

// narrowedPolicy changes a policy, or its binding, by the JSON patch "patch", so that a hole is open. The dispatcher has to
// stop being ready, and to name the policy and what differs.
func narrowedPolicy(s *story) {
	restore := s.change(s.text("policy"), s.text("binding"))
	s.Cleanup(func() {
		s.ctx = context.Background() // the test's own has ended
		restore()
		if err := s.wait(s.ctx, patient, func() string { return s.notReady() }); err != nil {
			s.Errorf("the dispatcher is not ready again: %v", err)
		}
	})
	_, says := s.a.refuser()
	if err := s.wait(s.ctx, noticed, func() string {
		text := s.notReady()
		if text == "" {
			return "/readyz says ok"
		}
		if !strings.Contains(text, says) {
			return text
		}
		return ""
	}); err != nil {
		s.Errorf("went through: the dispatcher is to say %q: %v", says, err)
	}
}

// stoppedDeletions has somebody take away the switch that stops all deletions.
func stoppedDeletions(s *story) {
	configMaps := s.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	_, err := configMaps.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: contract.StopDeletes}}, metav1.CreateOptions{})
	s.ok(err)
	s.Cleanup(func() { _ = configMaps.Delete(context.Background(), contract.StopDeletes, metav1.DeleteOptions{}) })
	err = s.clients[s.text("as")].CoreV1().ConfigMaps(contract.ProvisionersNamespace).Delete(s.ctx, contract.StopDeletes, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	if err := s.a.judge(nil, err); err != nil {
		s.Error(err)
	}
}

// change applies the case's patch to a policy or a binding, and returns what undoes it.
func (s *story) change(policy, binding string) (restore func()) {
	s.Helper()
	patch, err := json.Marshal(s.a.With["patch"])
	s.ok(err)
	client, err := dynamic.NewForConfig(s.config)
	s.ok(err)
	resource, name := "validatingadmissionpolicies", policy
	if policy == "" {
		resource, name = "validatingadmissionpolicybindings", binding
	}
	objects := client.Resource(admissionv1.SchemeGroupVersion.WithResource(resource))
	was, err := objects.Get(s.ctx, name, metav1.GetOptions{})
	s.ok(err)
	if len(s.a.With) == 1 { // nothing but its name: it is deleted
		s.ok(objects.Delete(s.ctx, name, metav1.DeleteOptions{}))
		was.SetResourceVersion("")
		was.SetUID("")
		return func() {
			s.again(func(ctx context.Context) error {
				_, err := objects.Create(ctx, was, metav1.CreateOptions{})
				return err
			})
		}
	}
	_, err = objects.Patch(s.ctx, name, types.JSONPatchType, patch, metav1.PatchOptions{})
	s.ok(err)
	return func() {
		s.again(func(ctx context.Context) error {
			now, err := objects.Get(ctx, name, metav1.GetOptions{})
			if err == nil {
				now.Object["spec"] = was.Object["spec"]
				_, err = objects.Update(ctx, now, metav1.UpdateOptions{})
			}
			return err
		})
	}
}

// again does what restores the cluster, until it succeeds.
func (s *story) again(do func(context.Context) error) {
	ctx := context.Background()
	if err := s.wait(ctx, soon, func() string {
		if err := do(ctx); err != nil {
			return err.Error()
		}
		return ""
	}); err != nil {
		s.Error(err)
	}
}

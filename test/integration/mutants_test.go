//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientadmissionv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Without any one of the policies, or any one of their rules, some hostile request of the tables is accepted: so every
// rule matters, and the tables would show its loss.
func TestEveryRuleMatters(t *testing.T) {
	all := suite(t)
	awaitPolicies(t, all)
	client := server.Client(apiserver.Admin.Token()).AdmissionregistrationV1()
	policies, err := client.ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	rules := 0
	for _, policy := range policies.Items {
		if !strings.HasPrefix(policy.Name, "flex-") || policy.Name == "flex-misplaced-configmaps" { // which warns, and refuses nothing
			continue
		}
		t.Run(policy.Name, func(t *testing.T) { checkBinding(t, policy.Name, all) })
		for i := range policy.Spec.Validations {
			rules++
			t.Run(fmt.Sprintf("%s/%d", policy.Name, i), func(t *testing.T) { checkRule(t, client, policy.Name, i, all) })
		}
	}
	if rules < 20 {
		t.Errorf("%d rules were taken away, want all of them", rules)
	}
}

// checkBinding takes a whole policy away.
func checkBinding(t *testing.T, name string, all []trial) {
	t.Helper()
	bindAgain := unbind(t, name)
	defer func() {
		bindAgain()
		awaitAll(t, all)
	}()
	checkAccepted(t, all)
}

// checkRule takes one rule away.
func checkRule(t *testing.T, client clientadmissionv1.AdmissionregistrationV1Interface, name string, i int, all []trial) {
	t.Helper()
	var was string
	set := func(expression func(now string) string) {
		policy, err := client.ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		rule := &policy.Spec.Validations[i]
		rule.Expression = expression(rule.Expression)
		if _, err := client.ValidatingAdmissionPolicies().Update(t.Context(), policy, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set(func(now string) string { was = now; return "true" })
	defer func() {
		set(func(string) string { return was })
		awaitAll(t, all)
	}()
	checkAccepted(t, all)
}

// checkAccepted waits until a request that a policy has to refuse is refused by none.
func checkAccepted(t *testing.T, all []trial) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		for _, c := range all {
			if c.refused == "" {
				continue
			}
			if err := send(t, c.token, c.Request); err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy '") {
				t.Logf("%s: %v", c.name, err)
				return
			}
		}
	}
	t.Error("every hostile request is refused all the same")
}

// awaitAll waits until the policies are whole again.
func awaitAll(t *testing.T, all []trial) {
	t.Helper()
	eventually(t, func() error {
		for _, c := range all {
			if err := c.run(t); c.refused != "" && err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
		}
		return nil
	})
}

//go:build integration

package integration

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	clientadmissionv1 "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Without any one of the policies' rules some hostile request of the tables is accepted: so every rule matters, and the
// tables would show its loss.
//
// A request is accepted without a rule if no other rule denies it. To see which ones do, the policies only warn meanwhile,
// each rule by its number: the API server gives a warning for every rule that is broken, and denies for the first.
func TestEveryRuleMatters(t *testing.T) {
	all := suite(t)
	awaitPolicies(t, all)
	rules, deny := warn(t)
	defer func() {
		deny()
		awaitAll(t, all)
	}()

	var only map[rule]string
	eventually(t, func() (err error) {
		only, err = onlyRules(t, rules, all)
		return err
	})
	for _, r := range rules {
		t.Run(fmt.Sprintf("%s/%d", r.policy, r.number), func(t *testing.T) {
			if strings.Contains(r.expression, "volumeAttributesClassName") && !serves(t, attributesClasses) {
				t.Skip("this API server drops the field before the policies see it")
			}
			if only[r] == "" {
				t.Error("every hostile request is refused all the same")
			}
			t.Logf("nothing else refuses %q", only[r])
		})
	}
	if len(rules) < 90 {
		t.Errorf("the policies have %d rules, want all of them", len(rules))
	}
}

// attributesClasses are served where volumes have the field that names one.
const attributesClasses = "storage.k8s.io/v1/volumeattributesclasses"

// rule is a validation of a policy.
type rule struct {
	policy string
	number int
	// expression is in the warning of a rule that fails.
	expression string
}

// warn has the policies warn of each broken rule and deny nothing, until the returned function is called.
func warn(t *testing.T) (rules []rule, deny func()) {
	t.Helper()
	client := server.Client(apiserver.Admin.Token()).AdmissionregistrationV1()
	policies, err := client.ValidatingAdmissionPolicies().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bindings, err := client.ValidatingAdmissionPolicyBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	judges := func(policy string) bool { // one warns, and refuses nothing
		return strings.HasPrefix(policy, "flex-") && policy != "flex-misplaced-configmaps"
	}
	policies.Items = slices.DeleteFunc(policies.Items, func(p admissionv1.ValidatingAdmissionPolicy) bool { return !judges(p.Name) })
	bindings.Items = slices.DeleteFunc(bindings.Items, func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
		return !judges(b.Spec.PolicyName)
	})

	warned := policies.DeepCopy()
	for _, policy := range warned.Items {
		for i := range policy.Spec.Validations {
			v := &policy.Spec.Validations[i]
			v.Message, v.MessageExpression = fmt.Sprint("rule ", i), ""
			v.Expression = strings.ReplaceAll(v.Expression, "\n", " ") // a warning is one line
			rules = append(rules, rule{policy.Name, i, strings.TrimSpace(v.Expression)})
		}
	}
	warning := bindings.DeepCopy()
	for i := range warning.Items {
		warning.Items[i].Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
	}
	write(t.Context(), t, client, warned, warning)
	return rules, func() { write(context.Background(), t, client, policies, bindings) }
}

// write puts policies and bindings in place of those that there are.
func write(ctx context.Context, t *testing.T, client clientadmissionv1.AdmissionregistrationV1Interface,
	policies *admissionv1.ValidatingAdmissionPolicyList, bindings *admissionv1.ValidatingAdmissionPolicyBindingList) {
	t.Helper()
	for _, policy := range policies.Items {
		now, err := client.ValidatingAdmissionPolicies().Get(ctx, policy.Name, metav1.GetOptions{})
		if err == nil {
			now.Spec = policy.Spec
			_, err = client.ValidatingAdmissionPolicies().Update(ctx, now, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, binding := range bindings.Items {
		now, err := client.ValidatingAdmissionPolicyBindings().Get(ctx, binding.Name, metav1.GetOptions{})
		if err == nil {
			now.Spec = binding.Spec
			_, err = client.ValidatingAdmissionPolicyBindings().Update(ctx, now, metav1.UpdateOptions{})
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// onlyRules has, for each rule that alone refuses a request, the last such request. It is an error if a policy still denies.
func onlyRules(t *testing.T, rules []rule, all []trial) (map[rule]string, error) {
	t.Helper()
	only := map[rule]string{}
	for _, c := range all {
		if c.refused == "" {
			continue
		}
		broken, err := c.broken(t, rules)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if len(broken) == 1 {
			only[broken[0]] = c.name
		}
	}
	return only, nil
}

// warningOf is the form of a policy's warning.
var warningOf = regexp.MustCompile(`^Validation failed for ValidatingAdmissionPolicy '([^']+)' with binding '[^']+': (.*)$`)

// broken are the rules that the request breaks.
func (c trial) broken(t *testing.T, rules []rule) (broken []rule, err error) {
	t.Helper()
	heard := &warnings{}
	config := server.Config(c.token)
	config.WarningHandler = heard
	_, err = c.Send(t.Context(), kubernetes.NewForConfigOrDie(config).Discovery().RESTClient())
	if err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy '") {
		return nil, fmt.Errorf("policies still deny: %w", err)
	}

	for _, text := range heard.texts {
		parts := warningOf.FindStringSubmatch(text)
		if parts == nil || parts[1] == "flex-misplaced-configmaps" {
			continue
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return r.policy == parts[1] && r.says(parts[2]) })
		if i < 0 {
			return nil, fmt.Errorf("no rule says %q", text)
		}
		broken = append(broken, rules[i])
	}
	if len(broken) == 0 {
		return nil, fmt.Errorf("no policy warns of what has to be refused: %v", err)
	}
	return broken, nil
}

// says reports whether the words are the rule's: its number, or its expression, which cannot be evaluated. The API server cuts
// off long warnings.
func (r rule) says(words string) bool {
	failed, fails := strings.CutPrefix(words, "expression '")
	if !fails {
		return words == "rule "+strconv.Itoa(r.number)
	}
	return strings.HasPrefix(failed, r.expression) || strings.HasPrefix(r.expression, failed)
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

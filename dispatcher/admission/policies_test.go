package admission

import (
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func TestMissingPolicies(t *testing.T) {
	type (
		policy  = admissionv1.ValidatingAdmissionPolicy
		binding = admissionv1.ValidatingAdmissionPolicyBinding
	)
	const (
		name         = "flex-pv-by-provisioner-pod"
		notAsShipped = "ValidatingAdmissionPolicy " + name + " is not as shipped: "
		boundElse    = "ValidatingAdmissionPolicyBinding " + name + " is not as shipped: "
	)
	s := readAll(t)
	p, _ := policyOf(s, name)
	variables := len(p.Spec.Variables)
	ignore, no, namespaced, exact, allow := admissionv1.Ignore, (*policy)(nil), admissionv1.NamespacedScope, admissionv1.Exact, admissionv1.AllowAction
	for _, c := range []struct {
		name string
		// weaken changes what is in force; returning nil removes it.
		weaken func(*policy) *policy
		unbind func(*binding) *binding
		want   string
	}{
		{name: "as shipped"},
		{name: "with another rule", weaken: func(p *policy) *policy {
			p.Spec.Validations = append(p.Spec.Validations, admissionv1.Validation{Expression: "false"})
			return p
		}},
		{name: "folded by another tool", weaken: func(p *policy) *policy {
			p.Spec.Variables[2].Expression = strings.ReplaceAll(p.Spec.Variables[2].Expression, " ", "\n ") + "\n"
			return p
		}},
		{name: "under another name", weaken: func(p *policy) *policy { p.Name = "second"; return p },
			unbind: func(b *binding) *binding { b.Name, b.Spec.PolicyName = "second", "second"; return b }},
		{name: "under another name, bound to that of the shipped", weaken: func(p *policy) *policy { p.Name = "second"; return p },
			want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod does not exist"},
		{name: "bound under another name", unbind: func(b *binding) *binding { b.Name = "second"; return b }},
		{name: "removed", weaken: func(*policy) *policy { return no }, want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod does not exist"},
		{name: "without its first rule", weaken: func(p *policy) *policy { p.Spec.Validations = p.Spec.Validations[1:]; return p },
			want: notAsShipped + `spec.validations lacks the shipped [0], {"expression":"request.operation == 'CREATE'"}`},
		{name: "failing open", weaken: func(p *policy) *policy { p.Spec.FailurePolicy = &ignore; return p },
			want: notAsShipped + "spec.failurePolicy is Ignore, want Fail"},
		{name: "for fewer requests", weaken: func(p *policy) *policy {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: "x", Expression: "false"})
			return p
		}, want: notAsShipped + `spec.matchConditions[1] is {"expression":"false","name":"x"}, want none`},
		{name: "with a variable that lies", weaken: func(p *policy) *policy { p.Spec.Variables[0].Expression = "'x'"; return p },
			want: notAsShipped + "spec.variables[0].expression is 'x', want request.userInfo.?extra[?'authentication.kubernetes.io/pod-name'][0].orValue('')"},
		{name: "with a variable more", weaken: func(p *policy) *policy {
			p.Spec.Variables = append(p.Spec.Variables, admissionv1.Variable{Name: "x", Expression: "1"})
			return p
		}, want: fmt.Sprintf(notAsShipped+`spec.variables[%d] is {"expression":"1","name":"x"}, want none`, variables)},
		{name: "for other resources", weaken: func(p *policy) *policy {
			p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"}
			return p
		}, want: notAsShipped + "spec.matchConstraints.resourceRules[0].resources[0] is pods, want persistentvolumes"},
		{name: "for objects in namespaces, of which volumes are none", weaken: func(p *policy) *policy {
			p.Spec.MatchConstraints.ResourceRules[0].Scope = &namespaced
			return p
		}, want: notAsShipped + "spec.matchConstraints.resourceRules[0].scope is Namespaced, want *"},
		{name: "for objects with a label", weaken: func(p *policy) *policy {
			p.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"held": "yes"}}
			return p
		}, want: notAsShipped + `spec.matchConstraints.objectSelector.matchLabels is {"held":"yes"}, want none`},
		{name: "for one version", weaken: func(p *policy) *policy { p.Spec.MatchConstraints.MatchPolicy = &exact; return p },
			want: notAsShipped + "spec.matchConstraints.matchPolicy is Exact, want Equivalent"},
		{name: "with other parameters", weaken: func(p *policy) *policy { p.Spec.ParamKind = nil; return p },
			want: notAsShipped + `spec.paramKind is none, want {"apiVersion":"v1","kind":"ConfigMap"}`},
		{name: "that says something else", weaken: func(p *policy) *policy {
			p.Spec.Validations[0].Message, p.Spec.Validations[0].Reason = "other words", nil
			p.Spec.AuditAnnotations = []admissionv1.AuditAnnotation{{Key: "x", ValueExpression: "'y'"}}

			return p
		}},
		{name: "unbound", unbind: func(*binding) *binding { return nil }, want: "ValidatingAdmissionPolicyBinding flex-pv-by-provisioner-pod does not exist"},
		{name: "bound to warn", unbind: func(b *binding) *binding {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
			return b
		}, want: boundElse + "spec.validationActions[0] is Warn, want Deny"},
		{name: "bound to record too", unbind: func(b *binding) *binding {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Audit, admissionv1.Deny}
			return b
		}},
		{name: "bound for some", unbind: func(b *binding) *binding {
			b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"held": "yes"}}}
			return b
		}, want: boundElse + `spec.matchResources.objectSelector.matchLabels is {"held":"yes"}, want none`},
		{name: "bound for all in so many words", unbind: func(b *binding) *binding {
			b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{}}
			return b
		}},
		{name: "bound without its allow-list", unbind: func(b *binding) *binding { b.Spec.ParamRef = nil; return b },
			want: boundElse + `spec.paramRef is none, want {"name":"flex-pv-policy","namespace":"flex-system","parameterNotFoundAction":"Deny"}`},
		{name: "bound so that a missing allow-list allows", unbind: func(b *binding) *binding {
			b.Spec.ParamRef.ParameterNotFoundAction = &allow
			return b
		}, want: boundElse + "spec.paramRef.parameterNotFoundAction is Allow, want Deny"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := cluster(s)
			p, b := policyOf(s, name)
			if c.weaken != nil {
				_ = got.policies.Delete(p)
				p = c.weaken(p)
			}

			if p != nil {
				_ = got.policies.Add(p)
			}

			if c.unbind != nil {
				_ = got.bindings.Delete(b)
				b = c.unbind(b)
			}

			if b != nil {
				_ = got.bindings.Add(b)
			}

			if lacks := got.missing(); lacks != c.want {
				t.Errorf("lacks %q, want %q", lacks, c.want)
			}
		})
	}
}

func readAll(t *testing.T) []shipped {
	t.Helper()
	s, err := readShipped(contract.SystemNamespace, contract.ProvisionersNamespace, contract.ProvisionerName)
	if err != nil {
		t.Fatal(err)
	}

	return s
}

// cluster has all policies as they are shipped.
func cluster(s []shipped) comparison {
	c := comparison{shipped: s, policies: cache.NewStore(cache.MetaNamespaceKeyFunc), bindings: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	for i := range s {
		_ = c.policies.Add(s[i].policy.DeepCopy())
		_ = c.bindings.Add(s[i].binding.DeepCopy())
	}

	return c
}

// policyOf is a copy of a shipped policy and of its binding.
func policyOf(s []shipped, name string) (*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding) {
	_, one := takeOut(s, name)
	return one.policy.DeepCopy(), one.binding.DeepCopy()
}

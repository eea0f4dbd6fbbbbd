package dispatcher

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

func TestContainment(t *testing.T) {
	type (
		policy  = admissionv1.ValidatingAdmissionPolicy
		binding = admissionv1.ValidatingAdmissionPolicyBinding
	)
	ignore, no := admissionv1.Ignore, (*policy)(nil)
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
			want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not as shipped: spec.validations lacks the shipped number 0"},
		{name: "failing open", weaken: func(p *policy) *policy { p.Spec.FailurePolicy = &ignore; return p },
			want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not as shipped: spec.failurePolicy is not Fail"},
		{name: "for fewer requests", weaken: func(p *policy) *policy {
			p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionv1.MatchCondition{Name: "x", Expression: "false"})
			return p
		}, want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not as shipped: spec.matchConditions differ"},
		{name: "with a variable that lies", weaken: func(p *policy) *policy { p.Spec.Variables[0].Expression = "'x'"; return p },
			want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not as shipped: spec.variables differ"},
		{name: "for other resources", weaken: func(p *policy) *policy {
			p.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"}
			return p
		}, want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not as shipped: spec.matchConstraints differ"},
		{name: "with other parameters", weaken: func(p *policy) *policy { p.Spec.ParamKind = nil; return p },
			want: "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not as shipped: spec.paramKind differs"},
		{name: "unbound", unbind: func(*binding) *binding { return nil }, want: "ValidatingAdmissionPolicyBinding flex-pv-by-provisioner-pod does not exist"},
		{name: "bound to warn", unbind: func(b *binding) *binding {
			b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
			return b
		}, want: "ValidatingAdmissionPolicyBinding flex-pv-by-provisioner-pod is not as shipped: spec.validationActions lacks Deny"},
		{name: "bound for some", unbind: func(b *binding) *binding {
			b.Spec.MatchResources = &admissionv1.MatchResources{ObjectSelector: &metav1.LabelSelector{}}
			return b
		}, want: "ValidatingAdmissionPolicyBinding flex-pv-by-provisioner-pod is not as shipped: spec.matchResources narrows it"},
		{name: "bound without its allow-list", unbind: func(b *binding) *binding { b.Spec.ParamRef = nil; return b },
			want: "ValidatingAdmissionPolicyBinding flex-pv-by-provisioner-pod is not as shipped: spec.paramRef differs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := readShipped(contract.SystemNamespace, contract.ProvisionersNamespace)
			if err != nil {
				t.Fatal(err)
			}
			if len(s) != 4 {
				t.Fatalf("%d policies are shipped, want 4", len(s))
			}
			got := containment{shipped: s, policies: cache.NewStore(cache.MetaNamespaceKeyFunc), bindings: cache.NewStore(cache.MetaNamespaceKeyFunc)}
			for i := range s {
				p, b := s[i].policy.DeepCopy(), s[i].binding.DeepCopy()
				if b.Name == "" {
					t.Fatalf("policy %s is shipped without a binding", p.Name)
				}
				if p.Name == "flex-pv-by-provisioner-pod" && c.weaken != nil {
					p = c.weaken(p)
				}
				if p != nil {
					_ = got.policies.Add(p)
				}
				if b.Name == "flex-pv-by-provisioner-pod" && c.unbind != nil {
					b = c.unbind(b)
				}
				if b != nil {
					_ = got.bindings.Add(b)
				}
			}
			if lacks := got.lacks(); lacks != c.want {
				t.Errorf("lacks %q, want %q", lacks, c.want)
			}
		})
	}
}

package dispatcher

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/deploy/policies"
)

// containment knows whether the admission policies are in force without which a provisioner pod's token could create any
// volume, and with it reach any file of any node.
type containment struct {
	shipped            []shipped
	policies, bindings cache.Store
}

// shipped is a policy with its binding.
type shipped struct {
	policy  admissionv1.ValidatingAdmissionPolicy
	binding admissionv1.ValidatingAdmissionPolicyBinding
}

// readShipped reads the policies that come with this program, as they have to be for the two namespaces.
func readShipped(system, provisioners string) ([]shipped, error) {
	var s []shipped
	bindings := map[string]admissionv1.ValidatingAdmissionPolicyBinding{}
	for _, document := range strings.Split(strings.Join([]string{policies.Volumes, policies.Secrets, policies.Namespace}, "\n---\n"), "\n---\n") {
		document = strings.NewReplacer(contract.SystemNamespace, system, contract.ProvisionersNamespace, provisioners).Replace(document)
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
			return nil, fmt.Errorf("read shipped admission policy: %w", err)
		}
		if policy.Kind == "ValidatingAdmissionPolicy" {
			s = append(s, shipped{policy: policy})
			continue
		}
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		if err := yaml.UnmarshalStrict([]byte(document), &binding); err != nil {
			return nil, fmt.Errorf("read shipped binding of an admission policy: %w", err)
		}
		bindings[binding.Spec.PolicyName] = binding
	}
	for i := range s {
		s[i].binding = bindings[s[i].policy.Name]
	}
	return s, nil
}

// lacks names what is missing or weaker than shipped, empty where nothing is. A policy that forbids as much under another name
// counts: of several dispatchers in a cluster, one can have the shipped names.
func (c containment) lacks() string {
	for _, want := range c.shipped {
		lack := c.lack(want, want.policy.Name)
		for _, obj := range c.policies.List() {
			if lack != "" && c.lack(want, obj.(*admissionv1.ValidatingAdmissionPolicy).Name) == "" {
				lack = ""
			}
		}
		if lack != "" {
			return lack
		}
	}
	return ""
}

// lack is what the policy of a name, with the best of its bindings, lacks of a shipped one.
func (c containment) lack(want shipped, name string) string {
	obj, ok, _ := c.policies.GetByKey(name)
	if !ok {
		return fmt.Sprintf("ValidatingAdmissionPolicy %s does not exist", name)
	}
	if weaker := weakerPolicy(&obj.(*admissionv1.ValidatingAdmissionPolicy).Spec, &want.policy.Spec); weaker != "" {
		return fmt.Sprintf("ValidatingAdmissionPolicy %s is not as shipped: %s", name, weaker)
	}
	lack := fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not exist", name)
	for _, obj := range c.bindings.List() {
		binding := obj.(*admissionv1.ValidatingAdmissionPolicyBinding)
		if binding.Spec.PolicyName != name {
			continue
		}
		weaker := weakerBinding(&binding.Spec, &want.binding.Spec)
		if weaker == "" {
			return ""
		}
		lack = fmt.Sprintf("ValidatingAdmissionPolicyBinding %s is not as shipped: %s", binding.Name, weaker)
	}
	return lack
}

// weakerPolicy says where a policy forbids less than the shipped one. Rules that were added to it are welcome.
func weakerPolicy(got, want *admissionv1.ValidatingAdmissionPolicySpec) string {
	if got.FailurePolicy != nil && *got.FailurePolicy != admissionv1.Fail {
		return "spec.failurePolicy is not Fail"
	}
	if !equality.Semantic.DeepEqual(got.ParamKind, want.ParamKind) {
		return "spec.paramKind differs"
	}
	got, want = plain(got), plain(want)
	if !equality.Semantic.DeepEqual(got.MatchConditions, want.MatchConditions) {
		return "spec.matchConditions differ"
	}
	if !equality.Semantic.DeepEqual(got.Variables, want.Variables) {
		return "spec.variables differ"
	}
	if got.MatchConstraints == nil || len(got.MatchConstraints.ExcludeResourceRules) > 0 ||
		!equality.Semantic.DeepEqual(rulesOf(got), rulesOf(want)) || !equality.Semantic.DeepEqual(namespacesOf(got), namespacesOf(want)) {
		return "spec.matchConstraints differ"
	}
	for i, rule := range want.Validations {
		if !slices.ContainsFunc(got.Validations, func(v admissionv1.Validation) bool { return v.Expression == rule.Expression }) {
			return fmt.Sprintf("spec.validations lacks the shipped number %d", i)
		}
	}
	return ""
}

// plain evens out the white space of expressions, which tools that rewrite YAML fold as they like.
func plain(spec *admissionv1.ValidatingAdmissionPolicySpec) *admissionv1.ValidatingAdmissionPolicySpec {
	spec = spec.DeepCopy()
	even := func(expression *string) { *expression = strings.Join(strings.Fields(*expression), " ") }
	for i := range spec.MatchConditions {
		even(&spec.MatchConditions[i].Expression)
	}
	for i := range spec.Variables {
		even(&spec.Variables[i].Expression)
	}
	for i := range spec.Validations {
		even(&spec.Validations[i].Expression)
	}
	return spec
}

// rulesOf leaves out what the API server fills in.
func rulesOf(spec *admissionv1.ValidatingAdmissionPolicySpec) [][]string {
	var rules [][]string
	for _, r := range spec.MatchConstraints.ResourceRules {
		operations := make([]string, len(r.Operations))
		for i, operation := range r.Operations {
			operations[i] = string(operation)
		}
		rules = append(rules, r.APIGroups, r.APIVersions, operations, r.Resources, r.ResourceNames)
	}
	return rules
}

func namespacesOf(spec *admissionv1.ValidatingAdmissionPolicySpec) map[string]string {
	selector := spec.MatchConstraints.NamespaceSelector
	if selector == nil {
		return nil
	}
	if len(selector.MatchExpressions) > 0 {
		return map[string]string{"": "expressions"}
	}
	return selector.MatchLabels
}

func weakerBinding(got, want *admissionv1.ValidatingAdmissionPolicyBindingSpec) string {
	switch {
	case !slices.Contains(got.ValidationActions, admissionv1.Deny):
		return "spec.validationActions lacks Deny"
	case got.MatchResources != nil:
		return "spec.matchResources narrows it"
	case !equality.Semantic.DeepEqual(got.ParamRef, want.ParamRef):
		return "spec.paramRef differs"
	}
	return ""
}

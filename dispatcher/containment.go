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
	shipped            shipped
	policies, bindings cache.Store
}

type shipped struct {
	policies []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// readShipped reads the policies that come with this program, as they have to be for the two namespaces.
func readShipped(system, provisioners string) (shipped, error) {
	var s shipped
	for _, document := range strings.Split(strings.Join([]string{policies.Volumes, policies.Secrets, policies.Namespace}, "\n---\n"), "\n---\n") {
		document = strings.NewReplacer(contract.SystemNamespace, system, contract.ProvisionersNamespace, provisioners).Replace(document)
		var policy admissionv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal([]byte(document), &policy); err != nil {
			return s, fmt.Errorf("read shipped admission policy: %w", err)
		}
		if policy.Kind == "ValidatingAdmissionPolicy" {
			s.policies = append(s.policies, policy)
			continue
		}
		var binding admissionv1.ValidatingAdmissionPolicyBinding
		if err := yaml.UnmarshalStrict([]byte(document), &binding); err != nil {
			return s, fmt.Errorf("read shipped binding of an admission policy: %w", err)
		}
		s.bindings = append(s.bindings, binding)
	}
	return s, nil
}

// lacks names what is missing or weaker than shipped, empty where nothing is.
func (c containment) lacks() string {
	for _, want := range c.shipped.policies {
		obj, ok, _ := c.policies.GetByKey(want.Name)
		if !ok {
			return fmt.Sprintf("ValidatingAdmissionPolicy %s does not exist", want.Name)
		}
		if weaker := weakerPolicy(&obj.(*admissionv1.ValidatingAdmissionPolicy).Spec, &want.Spec); weaker != "" {
			return fmt.Sprintf("ValidatingAdmissionPolicy %s is not as shipped: %s", want.Name, weaker)
		}
	}
	for _, want := range c.shipped.bindings {
		obj, ok, _ := c.bindings.GetByKey(want.Name)
		if !ok {
			return fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not exist", want.Name)
		}
		if weaker := weakerBinding(&obj.(*admissionv1.ValidatingAdmissionPolicyBinding).Spec, &want.Spec); weaker != "" {
			return fmt.Sprintf("ValidatingAdmissionPolicyBinding %s is not as shipped: %s", want.Name, weaker)
		}
	}
	return ""
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
	case got.PolicyName != want.PolicyName:
		return "spec.policyName is " + got.PolicyName
	case !slices.Contains(got.ValidationActions, admissionv1.Deny):
		return "spec.validationActions lacks Deny"
	case got.MatchResources != nil:
		return "spec.matchResources narrows it"
	case !equality.Semantic.DeepEqual(got.ParamRef, want.ParamRef):
		return "spec.paramRef differs"
	}
	return ""
}

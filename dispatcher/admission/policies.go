package admission

import (
	"cmp"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/client-go/tools/cache"
)

// comparison compares the cluster's admission policies with the shipped ones, without which a provisioner pod's token
// could create any volume, and with it reach any file of any node.
type comparison struct {
	shipped            []shipped
	policies, bindings cache.Store
}

// missing names what is missing or not as shipped, empty where nothing is.
func (c comparison) missing() string {
	for _, want := range c.shipped {
		if _, lack := c.find(want); lack != "" {
			return lack
		}
	}

	return ""
}

// inForce is a policy of the cluster that is as shipped, with a binding that is.
type inForce struct {
	policy  *admissionv1.ValidatingAdmissionPolicy
	binding *admissionv1.ValidatingAdmissionPolicyBinding
}

// find looks for a shipped policy, first by its name. A policy that is the same under another name counts: of several
// dispatchers in a cluster, one can have the shipped names. lack says what is wrong with the one of the shipped name.
func (c comparison) find(want shipped) (found inForce, lack string) {
	found, lack = c.named(want, want.policy.Name)
	if lack == "" {
		return found, ""
	}

	for _, obj := range c.policies.List() {
		spec, asked := &obj.(*admissionv1.ValidatingAdmissionPolicy).Spec, &want.policy.Spec
		if len(spec.Variables) != len(asked.Variables) || len(spec.Validations) < len(asked.Validations) {
			continue // spares the comparison with most of what a cluster has
		}

		if other, wrong := c.named(want, obj.(*admissionv1.ValidatingAdmissionPolicy).Name); wrong == "" {
			return other, ""
		}
	}

	return found, lack
}

// named is the policy of a name with one of its bindings, or what it lacks of a shipped one.
func (c comparison) named(want shipped, name string) (found inForce, lack string) {
	obj, ok, _ := c.policies.GetByKey(name)
	if !ok {
		return found, fmt.Sprintf("ValidatingAdmissionPolicy %s does not exist", name)
	}

	found.policy = obj.(*admissionv1.ValidatingAdmissionPolicy)
	if differs := diffPolicy(&found.policy.Spec, &want.policy.Spec); differs != "" {
		return found, fmt.Sprintf("ValidatingAdmissionPolicy %s is not as shipped: %s", name, differs)
	}

	lack = fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not exist", name)
	for _, binding := range c.bindingsOf(name) {
		differs := diffBinding(&binding.Spec, &want.binding.Spec)
		if differs == "" {
			return inForce{found.policy, binding}, ""
		}

		lack = fmt.Sprintf("ValidatingAdmissionPolicyBinding %s is not as shipped: %s", binding.Name, differs)
	}

	return found, lack
}

// bindingsOf are the bindings of a policy, by their names.
func (c comparison) bindingsOf(policy string) []*admissionv1.ValidatingAdmissionPolicyBinding {
	var found []*admissionv1.ValidatingAdmissionPolicyBinding
	for _, obj := range c.bindings.List() {
		if binding := obj.(*admissionv1.ValidatingAdmissionPolicyBinding); binding.Spec.PolicyName == policy {
			found = append(found, binding)
		}
	}

	slices.SortFunc(found, func(a, b *admissionv1.ValidatingAdmissionPolicyBinding) int {
		return cmp.Compare(a.Name, b.Name)
	})

	return found
}

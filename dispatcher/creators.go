package dispatcher

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"slices"
)

// creatorGuard is the name of the admission policy, and of its binding, that lets nobody state another's name in the
// claim's created-by annotations.
const creatorGuard = "flex-guard-claim-creator"

// creators knows whether the annotations that name a claim's creator can be believed.
type creators struct{ policies, bindings cache.Store }

// trusted says that the guard was in force when the claim was created. Anybody could have written the annotation before.
func (c creators) trusted(claim *corev1.PersistentVolumeClaim) bool {
	policy, ok, _ := c.policies.GetByKey(creatorGuard)
	if !ok {
		return false
	}
	obj, ok, _ := c.bindings.GetByKey(creatorGuard)
	if !ok {
		return false
	}
	binding := obj.(*admissionv1.ValidatingAdmissionPolicyBinding)
	return binding.Spec.PolicyName == creatorGuard && binding.Spec.MatchResources == nil &&
		slices.Contains(binding.Spec.ValidationActions, admissionv1.Deny) &&
		!claim.CreationTimestamp.Before(&binding.CreationTimestamp) &&
		!claim.CreationTimestamp.Before(&policy.(*admissionv1.ValidatingAdmissionPolicy).CreationTimestamp)
}

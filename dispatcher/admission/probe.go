package admission

import (
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// The identity of probes: a ServiceAccount of the provisioners' namespace that may do what provisioners may, and a pod
// that never exists. The dispatcher may impersonate this account with this pod name and nobody else. The policies let
// it create nothing, since it has no line in the allow-list.
const (
	ProbeAccount = "flex-policy-trial"
	ProbePod     = "prov-00000000-0000-4000-8000-000000000000-0"
	// PodNameKey is where the API server puts the name of the pod that a token is bound to.
	PodNameKey = "authentication.kubernetes.io/pod-name"
)

// ProbeIdentity is for the client of Options.Prober.
func ProbeIdentity(namespace string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + ProbeAccount,
		Extra:    map[string][]string{PodNameKey: {ProbePod}},
	}
}

// refusal is how the API server says which policy refused a request.
var refusal = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: `)

// Result is what came of a probe.
type Result struct {
	// Policy is the shipped name of the probed policy.
	Policy string
	// RefusedBy is the policy that refused, empty where none did.
	RefusedBy string
	// Missing says what is wrong where none did.
	Missing string
	// answered is false where the API server gave no answer that says anything about the policy.
	answered bool
}

// result judges the answer to a probe.
//
// Any policy's refusal is an answer. Of several policies that refuse, the API server names one, in no order that it
// promises; and the cluster's own policies, or rules that an administrator added to a shipped one, may refuse a probe
// as well. Then it is shown that policies are enforced, and known from its text that the probed one is as shipped.
func (p probe) result(err error) Result {
	r := Result{Policy: p.policy, answered: true}
	named := []string(nil)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // a policy chooses its reason
		named = refusal.FindStringSubmatch(err.Error())
	}

	switch {
	case err == nil || apierrors.IsAlreadyExists(err): // that it exists is found after all policies agreed
		r.Missing = fmt.Sprintf("ValidatingAdmissionPolicy %s is not in force: a dry run that creates %s was accepted",
			p.policy, p.what)
	case named != nil:
		r.RefusedBy = named[1]
	default:
		r.Missing = fmt.Sprintf("ValidatingAdmissionPolicy %s could not be tried: %s",
			p.policy, podspec.Clean(err.Error()))
		r.answered = apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	}

	return r
}

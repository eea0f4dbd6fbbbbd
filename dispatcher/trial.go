package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// The identity that hostile requests are tried with: a ServiceAccount of the provisioners' namespace that may do what
// provisioners may, and a pod that never exists. The dispatcher may impersonate this account with this pod name and
// nobody else, and the policies let it create nothing, since it has no line in the allow-list.
const (
	TrialAccount = "flex-policy-trial"
	TrialPod     = "prov-00000000-0000-4000-8000-000000000000-0"
	// PodNameKey is where the API server puts the name of the pod that a token is bound to.
	PodNameKey = "authentication.kubernetes.io/pod-name"
)

// TrialIdentity is for the client of Options.Trial.
func TrialIdentity(namespace string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + namespace + ":" + TrialAccount,
		Extra:    map[string][]string{PodNameKey: {TrialPod}},
	}
}

// Delays between trials. A policy that was written a moment ago is not in force yet, and one can stop to be without
// having been changed: an API server that was restarted without the admission of policies.
const (
	tryAgainAfter = 2 * time.Second
	tryAnyway     = 10 * time.Minute
)

// refusal is how the API server says which policy refused a request.
var refusal = regexp.MustCompile(`ValidatingAdmissionPolicy '([^']+)' with binding '[^']+' denied request: `)

// Tried is what came of a probe.
type Tried struct {
	// Policy is the shipped name of the probed policy.
	Policy string
	// RefusedBy is the policy that refused, empty where none did.
	RefusedBy string
	// Lacks says what is wrong where none did.
	Lacks string
	// known is false where the answer says nothing about the policy.
	known bool
}

// verdict judges the answer to a probe.
//
// Any policy's refusal is an answer: of several that refuse, the API server names one, in no order that it promises, and the
// policies of the cluster, or rules that an administrator added to a shipped one, may refuse a probe as well. Then it shows
// that policies are enforced, and that the probed one is as shipped is known from its text.
func (p probe) verdict(err error) Tried {
	t := Tried{Policy: p.policy, known: true}
	named := []string(nil)
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) { // a policy chooses its reason
		named = refusal.FindStringSubmatch(err.Error())
	}
	switch {
	case err == nil || apierrors.IsAlreadyExists(err): // that it exists is found after all policies agreed
		t.Lacks = fmt.Sprintf("ValidatingAdmissionPolicy %s is not in force: a dry run that creates %s was accepted", p.policy, p.what)
	case named != nil:
		t.RefusedBy = named[1]
	default:
		t.Lacks = fmt.Sprintf("ValidatingAdmissionPolicy %s could not be tried: %s", p.policy, podspec.Clean(err.Error()))
		t.known = apierrors.IsForbidden(err) || apierrors.IsInvalid(err)
	}
	return t
}

// Try sends all probes. It changes nothing in the cluster, and may be called before Run.
func (d *Dispatcher) Try(ctx context.Context) []Tried {
	clients := map[identity]kubernetes.Interface{asProvisioner: d.options.Trial, asDispatcher: d.client}
	tried := make([]Tried, 0, len(probes))
	for _, p := range probes {
		tried = append(tried, p.verdict(p.send(ctx, clients[p.as], place{d.options.SystemNamespace, d.cluster})))
	}
	return tried
}

// tryPolicies tries them again when one changed, and from time to time.
func (d *Dispatcher) tryPolicies(ctx context.Context) {
	for {
		pause := tryAnyway
		if d.lackingTrial() != "" {
			pause = tryAgainAfter
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.lacking.changed:
			timer.Stop()
		case <-timer.C:
		}
		d.tryPoliciesOnce(ctx)
	}
}

// tryPoliciesOnce keeps what was known where the API server gives no answer, and lets everything look again where the
// verdict changed.
func (d *Dispatcher) tryPoliciesOnce(ctx context.Context) {
	before, now := d.lackingTrial(), ""
	for _, t := range d.Try(ctx) {
		if !t.known && before == "" {
			d.log.Info("A trial of the admission policies got no answer", "problem", t.Lacks)
			return
		}
		if t.RefusedBy != "" && t.RefusedBy != t.Policy {
			d.log.V(2).Info("A probe of an admission policy was refused by another one", "policy", t.Policy, "by", t.RefusedBy)
		}
		now = cmp.Or(now, t.Lacks)
	}
	if now == before {
		return
	}
	d.lacking.Lock()
	d.lacking.trial = now
	d.lacking.Unlock()
	d.log.Info("Tried the admission policies", "lacks", now)
	d.lanes.pokeAll()
}

func (d *Dispatcher) lackingTrial() string {
	d.lacking.Lock()
	defer d.lacking.Unlock()
	return d.lacking.trial
}

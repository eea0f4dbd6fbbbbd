//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/admission"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

const remedy = ": apply the installation again, or start the dispatcher with --insecure-without-policies"

// The dispatcher says which policy is missing, and works again when it is back.
func TestDispatcherMissesPolicies(t *testing.T) {
	awaitPolicies(t, suite(t))
	d := runDispatcher(t, server, theFirst)
	lacks(t, d, "")
	for _, name := range required(t) {
		bindAgain := unbind(t, name)
		lacks(t, d, "ValidatingAdmissionPolicyBinding "+name+" does not exist"+remedy)
		bindAgain()
		lacks(t, d, "")
	}
	awaitPolicies(t, suite(t))
}

// required are the policies without which no pod is made: all that are installed, but for the guard of claims' creators, and the one
// that only warns.
func required(t *testing.T) []string {
	t.Helper()
	bindings, err := server.Client(apiserver.Admin.Token()).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, b := range bindings.Items {
		if strings.HasPrefix(b.Name, "flex-") && b.Name != "flex-guard-claim-creator" && b.Name != "flex-misplaced-configmaps" {
			names = append(names, b.Name)
		}
	}
	if len(names) < 4 {
		t.Fatalf("policies %v are installed, want all", names)
	}
	return names
}

// A policy that is narrowed in a way that the tables cannot show is noticed all the same, and named by what narrows it.
func TestDispatcherNoticesNarrowedPolicies(t *testing.T) {
	awaitPolicies(t, suite(t))
	d := runDispatcher(t, server, theFirst)
	lacks(t, d, "")
	const policy, binding = "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod", "ValidatingAdmissionPolicyBinding flex-pv-by-provisioner-pod"
	for _, c := range []struct{ kind, patch, back, want string }{
		{policy, `{"spec": {"matchConstraints": {"objectSelector": {"matchLabels": {"held": "yes"}}}}}`, `{"spec": {"matchConstraints": {"objectSelector": {"matchLabels": null}}}}`,
			`spec.matchConstraints.objectSelector.matchLabels is {"held":"yes"}, want none`},
		{policy, `{"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}`, `{"spec": {"matchConstraints": {"matchPolicy": null}}}`,
			"spec.matchConstraints.matchPolicy is Exact, want Equivalent"},
		{policy, `{"spec": {"failurePolicy": "Ignore"}}`, `{"spec": {"failurePolicy": null}}`, "spec.failurePolicy is Ignore, want Fail"},
		{binding, `{"spec": {"matchResources": {"namespaceSelector": {"matchLabels": {"held": "yes"}}}}}`, `{"spec": {"matchResources": {"namespaceSelector": {"matchLabels": null}}}}`,
			`spec.matchResources.namespaceSelector.matchLabels is {"held":"yes"}, want none`},
		{binding, `{"spec": {"validationActions": ["Warn"]}}`, `{"spec": {"validationActions": ["Deny", "Audit"]}}`, "spec.validationActions[0] is Warn, want Deny"},
		{binding, `{"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}}`, `{"spec": {"paramRef": {"parameterNotFoundAction": "Deny"}}}`,
			"spec.paramRef.parameterNotFoundAction is Allow, want Deny"},
	} {
		kind, name, _ := strings.Cut(c.kind, " ")
		for _, step := range []struct{ patch, want string }{{c.patch, c.kind + " is not as shipped: " + c.want + remedy}, {c.back, ""}} {
			if _, err := server.Kubectl(t.Context(), "patch", kind, name, "--type=merge", "--patch", step.patch); err != nil {
				t.Fatal(err)
			}
			lacks(t, d, step.want)
		}
	}
	if _, err := server.Kubectl(t.Context(), "apply", "-f", "deploy/policies/volumes.yaml"); err != nil {
		t.Fatal(err)
	}
	lacks(t, d, "")
}

// Each probe is refused by its policy, and by no other: without the policy's binding it is accepted.
func TestProbes(t *testing.T) {
	awaitPolicies(t, suite(t))
	d := newDispatcher(t, server, theFirst)
	for i, tried := range d.ProbePolicies(t.Context()) {
		if tried.RefusedBy != tried.Policy || tried.Missing != "" {
			t.Errorf("the probe of %s is refused by %q, lacks %q", tried.Policy, tried.RefusedBy, tried.Missing)
		}
		bindAgain := unbind(t, tried.Policy)
		want := "ValidatingAdmissionPolicy " + tried.Policy + " is not in force: a dry run that creates "
		eventually(t, func() error {
			if now := d.ProbePolicies(t.Context())[i]; !strings.HasPrefix(now.Missing, want) {
				return fmt.Errorf("the probe of %s without its policy: refused by %q, lacks %q", now.Policy, now.RefusedBy, now.Missing)
			}
			return nil
		})
		bindAgain()
	}
	awaitPolicies(t, suite(t))
}

// All that can be read is as it should be, but the API server does not enforce it: only a trial shows that.
func TestDispatcherTriesPolicies(t *testing.T) {
	open, err := apiserver.Start(t.Context(), nil, "--disable-admission-plugins=ValidatingAdmissionPolicy")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Stop()
	for _, args := range [][]string{{"apply", "-k", "deploy/base"}, {"create", "serviceaccount", "-n", contract.ProvisionersNamespace, "default"}} {
		if _, err := open.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	d, without := newDispatcher(t, open, theFirst), newDispatcher(t, open, theFirst)
	runToEnd(t, d)
	lacks(t, d, "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod is not in force: a dry run that creates another claim's volume was accepted"+remedy)

	// Without the right to try, nothing is taken for granted either.
	if _, err := open.Kubectl(t.Context(), "delete", "clusterrolebinding", "flex-provisioner-pod"); err != nil {
		t.Fatal(err)
	}
	runToEnd(t, without)
	eventually(t, func() error {
		if got := without.MissingPolicies(); !strings.HasPrefix(got, "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod could not be tried: persistentvolumes is forbidden") {
			return fmt.Errorf("the dispatcher lacks %q", got)
		}
		return nil
	})
}

// installation is what tells one dispatcher of a cluster from another.
type installation struct{ provisioner, system, provisioners string }

var theFirst = installation{contract.ProvisionerName, contract.SystemNamespace, contract.ProvisionersNamespace}

func runDispatcher(t *testing.T, s *apiserver.Server, of installation) *dispatcher.Dispatcher {
	t.Helper()
	d := newDispatcher(t, s, of)
	runToEnd(t, d)
	return d
}

// newDispatcher makes a dispatcher that does not run yet. All of a process are made before the first one runs: the library
// writes into client-go's scheme as it is made, which every answer of the API server is decoded with.
func newDispatcher(t *testing.T, s *apiserver.Server, of installation) *dispatcher.Dispatcher {
	t.Helper()
	token := tokenAt(t, s, of.system, "dispatcher", nil)
	config := s.Config(token)
	config.Impersonate = admission.ProbeIdentity(of.provisioners)
	d, err := dispatcher.New(t.Context(), s.Client(token), dispatcher.Options{
		RecordKey:       make([]byte, podspec.MinRecordKey),
		ProvisionerName: of.provisioner, SystemNamespace: of.system,
		Pods:   podspec.Cluster{Namespace: of.provisioners},
		Prober: kubernetes.NewForConfigOrDie(config), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func runToEnd(t *testing.T, d *dispatcher.Dispatcher) {
	ended := make(chan error, 1)
	go func() { ended <- d.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func lacks(t *testing.T, d *dispatcher.Dispatcher, want string) {
	t.Helper()
	eventually(t, func() error {
		if got := d.MissingPolicies(); got != want {
			return fmt.Errorf("the dispatcher lacks %q, want %q", got, want)
		}
		return nil
	})
}

//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

const remedy = ": apply the installation again, or start the dispatcher with --insecure-without-policies"

// The dispatcher says which policy is missing, and works again when it is back.
func TestDispatcherMissesPolicies(t *testing.T) {
	awaitPolicies(t, suite(t))
	d := runDispatcher(t, server, theFirst)
	lacks(t, d, "")
	bindings := server.Client(apiserver.Admin.Token()).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	for _, name := range []string{"flex-pv-by-provisioner-pod", "flex-pv-create-only", "flex-secrets-by-provisioner-pod", "flex-provisioner-namespace"} {
		binding, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := bindings.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		lacks(t, d, "ValidatingAdmissionPolicyBinding "+name+" does not exist"+remedy)
		binding.UID, binding.ResourceVersion = "", ""
		if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		lacks(t, d, "")
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
	if _, err := open.Kubectl(t.Context(), "delete", "clusterrolebinding", "flex-policy-trial"); err != nil {
		t.Fatal(err)
	}
	runToEnd(t, without)
	eventually(t, func() error {
		if got := without.Lacks(); !strings.HasPrefix(got, "ValidatingAdmissionPolicy flex-pv-by-provisioner-pod could not be tried: persistentvolumes is forbidden") {
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
	config.Impersonate = dispatcher.TrialIdentity(of.provisioners)
	d, err := dispatcher.New(t.Context(), s.Client(token), dispatcher.Options{
		RecordKey:       make([]byte, podspec.MinRecordKey),
		ProvisionerName: of.provisioner, SystemNamespace: of.system,
		Pods:  podspec.Cluster{Namespace: of.provisioners},
		Trial: kubernetes.NewForConfigOrDie(config), Registry: prometheus.NewRegistry(),
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
		if got := d.Lacks(); got != want {
			return fmt.Errorf("the dispatcher lacks %q, want %q", got, want)
		}
		return nil
	})
}

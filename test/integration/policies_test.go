//go:build integration

package integration

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// Every hostile request of the tables is refused with the right words, and every good one is accepted.
func TestPolicies(t *testing.T) {
	all := suite(t)
	awaitPolicies(t, all)
	hostile := 0
	for _, c := range all {
		if c.hostile() {
			hostile++
		}
		t.Run(c.name, func(t *testing.T) {
			if err := c.run(t); err != nil {
				t.Error(err)
			}
		})
	}
	t.Logf("%d requests, %d of them hostile", len(all), hostile)
	if hostile < 80 {
		t.Errorf("%d hostile requests, want 80 or more", hostile)
	}
}

// awaitPolicies waits until every policy and the last lines of the allow-list have reached the API server's admission.
func awaitPolicies(t *testing.T, all []trial) {
	t.Helper()
	waited := 0
	for _, c := range all {
		switch c.name {
		case "volumes/iscsi with a Secret", "volumes/owner", "pods/makes a Secret of any name", "requests/mallory makes a pod", "privileges/root", "privileges/a pod with all that is granted",
			"requests/a provisioner with too many rights deletes a volume", "claims/says that he is the administrator":
			waited++
			eventually(t, func() error { return c.run(t) })
		}
	}
	if waited != 8 {
		t.Fatalf("%d of the requests that show the policies in force are in the tables, want 8", waited)
	}
}

// unbind takes the binding of a policy away, until the returned function is called.
func unbind(t *testing.T, name string) (bindAgain func()) {
	t.Helper()
	bindings := server.Client(apiserver.Admin.Token()).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	binding, err := bindings.Get(t.Context(), name, metav1.GetOptions{})
	if err == nil {
		err = bindings.Delete(t.Context(), name, metav1.DeleteOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		binding.ResourceVersion, binding.UID = "", ""
		if _, err := bindings.Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

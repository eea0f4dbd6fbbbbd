package dispatcher

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

func TestVerdict(t *testing.T) {
	volumes := schema.GroupResource{Resource: "persistentvolumes"}
	refusal := func(text string) error { return apierrors.NewForbidden(volumes, "x", errors.New(text)) }
	for _, c := range []struct {
		name  string
		err   error
		want  string
		known bool
	}{
		{"accepted", nil, "ValidatingAdmissionPolicy p is not in force: a dry run that creates w was accepted", true},
		{"refused", refusal("ValidatingAdmissionPolicy 'p' with binding 'p' denied request: no"), "", true},
		{"refused by another policy", refusal("ValidatingAdmissionPolicy 'images' with binding 'images' denied request: no"), "", true},
		{"refused by RBAC", refusal(`User "x" cannot create resource`),
			`ValidatingAdmissionPolicy p could not be tried: persistentvolumes "x" is forbidden: User "x" cannot create resource`, true},
		{"no answer", errors.New("connection refused"), "ValidatingAdmissionPolicy p could not be tried: connection refused", false},
		{"busy", apierrors.NewTooManyRequests("later", 1), "ValidatingAdmissionPolicy p could not be tried: later", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, known := hostileRequest{policy: "p", what: "w"}.verdict(c.err)
			if got != c.want || known != c.known {
				t.Errorf("verdict %q, known %v, want %q, %v", got, known, c.want, c.known)
			}
		})
	}
}

// Every policy that comes with the program is tried, but for the one that RBAC stands before.
func TestEveryPolicyIsTried(t *testing.T) {
	s, err := readShipped(contract.SystemNamespace, contract.ProvisionersNamespace)
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{"flex-pv-create-only": true}
	for _, h := range hostileRequests(nil, nil, "") {
		tried[h.policy] = true
	}
	for _, p := range s {
		if !tried[p.policy.Name] {
			t.Errorf("policy %s is not tried", p.policy.Name)
		}
	}
}

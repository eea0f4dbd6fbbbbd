//go:build integration

package integration

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// What deploy/another.sh installs is accepted, and its dispatcher lacks nothing; nor does the first, beside it.
func TestAnotherDispatcher(t *testing.T) {
	both, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer both.Stop()
	if _, err := both.Kubectl(t.Context(), "apply", "-k", "deploy/base"); err != nil {
		t.Fatal(err)
	}
	fast := installation{"example.com/fast", "fast-system", "fast-provisioners"}
	if err := both.ApplyAnother(t.Context(), "fast", fast.provisioner); err != nil {
		t.Fatal(err)
	}
	first, second := newDispatcher(t, both, theFirst), newDispatcher(t, both, fast)
	for _, d := range []*dispatcher.Dispatcher{first, second} {
		runToEnd(t, d)
		lacks(t, d, "")
	}
	lacks(t, first, "")
	leases := both.Client(tokenAt(t, both, fast.system, "dispatcher", nil)).CoordinationV1().Leases(fast.system)
	if _, err := leases.Get(t.Context(), "flex-provisioner-example-com-fast", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the Lease: %v, want that there is none yet", err)
	}
}

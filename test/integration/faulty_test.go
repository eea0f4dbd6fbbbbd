//go:build integration

package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// A ConfigMap with faults that is older than the policy is annotated and deleted like any other. Its data and labels have to be good.
func TestFaultyConfigMapFromBefore(t *testing.T) {
	client := server.Client(apiserver.Admin.Token())
	bindAgain := unbind(t, "flex-provisioner-namespace")
	maps := client.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	eventually(t, func() error {
		_, err := maps.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "from-before", Labels: map[string]string{"type": "provisioner-config"}, Finalizers: []string{"example.com/a", "example.com/b"}},
			Data:       map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/x", "service-account-name": "x", "storage-class": "from-before", "timeout": ""},
		}, metav1.CreateOptions{})
		return err
	})
	bindAgain()
	patch := func(body string) error {
		_, err := maps.Patch(t.Context(), "from-before", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	const told = "provisioner ConfigMap: data[timeout] is empty: write a value or remove the key"
	n := 0
	eventually(t, func() error {
		n++ // what changes nothing is accepted
		return judge(patch(fmt.Sprintf(`{"data": {"zone": "%d"}}`, n)), told)
	})
	for _, c := range []struct{ name, body, told string }{
		{"a label", `{"metadata": {"labels": {"a": "b"}}}`, told},
		{"an annotation", `{"metadata": {"annotations": {"a": "b"}}}`, ""},
		{"a finalizer", `{"metadata": {"finalizers": ["example.com/a"]}}`, ""},
	} {
		if err := judge(patch(c.body), c.told); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := maps.Delete(t.Context(), "from-before", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := patch(`{"data": {"zone": "east"}, "metadata": {"finalizers": null}}`); err != nil {
		t.Errorf("the last finalizer: %v", err)
	}
}

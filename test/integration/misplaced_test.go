//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// warnings are those of the last request.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _, text string) { w.texts = append(w.texts, text) }

// TestMisplacedConfigMap: whoever applies a provisioner ConfigMap elsewhere is told at once, is refused nothing, and nobody else is told
// anything.
func TestMisplacedConfigMap(t *testing.T) {
	const told = "Validation failed for ValidatingAdmissionPolicy 'flex-misplaced-configmaps' with binding 'flex-misplaced-configmaps': nobody reads this ConfigMap: " +
		"provisioner ConfigMaps have effect in namespace flex-provisioners only, with the labels storage-class and type: provisioner-config and with plugin-name: flex-provisioner.io/dispatcher"
	heard := &warnings{}
	config := rest.CopyConfig(server.Config(apiserver.Admin.Token()))
	config.WarningHandler = heard
	client := kubernetes.NewForConfigOrDie(config)
	for name, c := range map[string]struct {
		namespace, label string
		data             map[string]string
		want             string
	}{
		"the first design's": {"default", "provisioner-config", map[string]string{"plugin-name": "kubernetes.io/flex-provisioner"}, told},
		"ours":               {"default", "provisioner-config", map[string]string{"plugin-name": contract.ProvisionerName}, told},
		"in its place": {contract.ProvisionersNamespace, "provisioner-config", map[string]string{
			"plugin-name": contract.ProvisionerName, "storage-class": "silver", "image": "registry.example/silver", "service-account-name": "silver"}, ""},
		"another dispatcher's":       {"default", "provisioner-config", map[string]string{"plugin-name": "example.com/fast"}, ""},
		"somebody else's label":      {"default", "provisioner-config", nil, ""},
		"somebody else's altogether": {"default", "other", map[string]string{"plugin-name": contract.ProvisionerName}, ""},
	} {
		ask := func() error {
			heard.texts = nil
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "misplaced-", Labels: map[string]string{"type": c.label}}, Data: c.data}
			if _, err := client.CoreV1().ConfigMaps(c.namespace).Create(t.Context(), cm, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				return err
			}
			if got := strings.Join(heard.texts, "; "); got != c.want {
				return fmt.Errorf("%s: warned %q, want %q", name, got, c.want)
			}
			return nil
		}
		eventually(t, ask)
	}
}

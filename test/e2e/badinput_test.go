//go:build e2e

package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestLongNames: names of 253 characters, the longest that there are, for the claim and for its class.
func TestLongNames(t *testing.T) {
	t.Parallel()
	s := begin(t)
	long := func(prefix string) string { return prefix + strings.Repeat("-x", 126)[:253-len(prefix)-1] + "z" }
	class := s.class("a", setting{
		name:      long(s.name),
		provision: countRuns + "[ $run -gt 1 ] || flexctl fail 'not yet'\n" + makeDir + makeVolume,
	})
	c := class.claim(long("claim"))
	if len(c.Name) != 253 || len(class.name) != 253 {
		t.Fatalf("names of %d and %d characters", len(c.Name), len(class.name))
	}
	c.told(soon, "ProvisionerFailed", "not yet (pod {pod})")
	c.bound(soon)
	c.told(soon, "ProvisioningSucceeded", "pod * made volume {volume}")
	env := class.env(contract.Provision, c.volumeName())
	if env["FLEX_PVC_NAME"] != c.Name || env["FLEX_STORAGE_CLASS"] != class.name {
		t.Errorf("the pod saw claim %q of class %q", env["FLEX_PVC_NAME"], env["FLEX_STORAGE_CLASS"])
	}
	s.told(soon, class.edit(map[string]string{"imgae": "typo"}), "ConfigInvalid", "data[imgae]: Forbidden: *")
	class.edit(map[string]string{"imgae": ""})
	c.consume(shared.admin)
	c.delete()
	c.gone(soon)
	c.ran(contract.Delete, 1)
}

// nasty is text that a shell, the kubelet or a careless parser would take for something else.
const nasty = "$(FLEX_PV_NAME) $HOME `id` \"double\" 'single' \\ $$ %s {{.}} &amp; ; rm -rf /"

// TestNastyText: what users and administrators write reaches the pod as it was written, and nothing else of it does.
func TestNastyText(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{
		data: map[string]string{"motto": nasty, "poem": "two\nlines\t$(FLEX_PV_NAME)",
			"claim-labels": "example.com/team, absent", "claim-annotations": "example.com/asked"},
		terms: storagev1.StorageClass{Parameters: map[string]string{"fsType": nasty}},
	})
	c := class.claim("claim", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Labels = map[string]string{"example.com/team": "blue", "example.com/other": "red"}
		pvc.Annotations = map[string]string{
			"example.com/asked": nasty, "example.com/nasty": nasty, "example.com/lines": "a\nimage: evil\n---\n\r\tb", "example.com/quotes": `"'` + "`" + `\"`,
		}
	})
	c.bound(soon)
	env := class.env(contract.Provision, c.volumeName())
	for name, want := range map[string]string{"MOTTO": nasty, "FSTYPE": nasty, "POEM": "two\nlines\t$(FLEX_PV_NAME)",
		"FLEX_PVC_LABEL_EXAMPLE_COM_TEAM": "blue", "FLEX_PVC_LABEL_ABSENT": "", "FLEX_PVC_ANNOTATION_EXAMPLE_COM_ASKED": nasty} {
		if env[name] != want {
			t.Errorf("the pod saw %s=%q, want %q", name, env[name], want)
		}
	}
	for name, value := range env {
		meant := name == "MOTTO" || name == "FSTYPE" || name == "FLEX_PVC_ANNOTATION_EXAMPLE_COM_ASKED"
		if !meant && strings.Contains(value, "rm -rf") || value == "red" {
			t.Errorf("a label or annotation of the claim became %s=%q", name, value)
		}
	}
	c.consume(shared.admin)
	c.delete()
	c.gone(soon)
	if got := class.env(contract.Delete, c.volumeName())["MOTTO"]; got != nasty {
		t.Errorf("the delete pod saw MOTTO=%q, want %q", got, nasty)
	}
}

// TestSelector: backup tools restore claims with a selector, which no new volume can match.
func TestSelector(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := s.class("a", setting{}).claim("selects", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"velero.io/dynamic-pv-restore": "data"}}
	})
	c.told(soon, "ClaimRefused", "*spec.selector is set: a new volume cannot be selected by its labels; create the claim again without the selector*")
	c.delete()
}

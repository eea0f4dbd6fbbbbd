//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestBadConfig has ConfigMaps that were never right. The administrator is told the faults, the user whom to ask, and once they are
// mended the same claim is bound, without a restart.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		name    string
		changes map[string]string
		text    string
	}{
		{
			name: "1 MiB of properties", changes: map[string]string{"blob": strings.Repeat("x", 1<<20-4096)},
			text: `data: Too long: the names and values of all properties or parameters have 1044*** bytes, at most 16384 are allowed; put large files into the image or a Secret (key secrets)`,
		},
		{
			name: "everything at once", changes: map[string]string{"max-concurrent": "many", "tiemout": "10s", "LD_PRELOAD": "x"},
			text: `[data[max-concurrent]: Invalid value: "many": must be a whole number from 0 to 10000, data[tiemout]: Forbidden: looks like a misspelling of the reserved key "timeout": *, data[LD_PRELOAD]: Forbidden: would set the environment variable LD_PRELOAD, which is refused: *]`,
		},
	} {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			unchanged := s.dispatcherUnchanged()
			class := s.class("a", setting{data: bad.changes})
			c := class.claim("claim")
			c.told(soon, "ProvisionerConfigMissing",
				fmt.Sprintf("the provisioner ConfigMap %s of class %q is invalid: an administrator finds the faults in its events", class.id, class.name))
			s.told(soon, class.edit(nil), "ConfigInvalid", bad.text)
			c.ran(contract.Provision, 0)
			mended := map[string]string{}
			for key := range bad.changes {
				mended[key] = ""
			}
			class.edit(mended)
			c.bound(soon)
			unchanged()
		})
	}
}

// TestConfigTwice gives a class a second ConfigMap. While there are two, the first stays in force.
func TestConfigTwice(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{data: map[string]string{"zone": "west"}})
	class.claim("alone").bound(soon)
	text := fmt.Sprintf("class %q has 2 provisioner ConfigMaps, %s among them: an administrator has to remove all but one", class.name, class.id)
	data := class.data
	data["zone"] = "east"
	second := class.makeConfigMap(class.id+"-second", data)
	s.told(soon, second, "ConfigDuplicate", text)
	s.told(soon, class.edit(nil), "ConfigDuplicate", text)
	c := class.claim("two")
	c.bound(soon)
	if got := class.env(contract.Provision, c.volumeName())["ZONE"]; got != "west" {
		t.Errorf("with two ConfigMaps the pod saw zone %q, want that of the one that was there first, west", got)
	}
	class.removeConfigMap(class.id + "-second")
	class.claim("alone-again").bound(soon)
}

// TestBadClaim has a claim that asks for what its class does not offer. It gets no plain volume instead, and is bound once the class
// offers it.
func TestBadClaim(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{data: map[string]string{"access-modes": "ReadWriteOnce"}})
	c := class.claim("claim", rawDevice)
	c.told(soon, "ClaimRefused", fmt.Sprintf("spec.accessModes has ReadWriteMany: class %[1]s offers ReadWriteOnce; spec.volumeMode is Block: class %[1]s offers Filesystem", class.name))
	class.claim("good", readWriteOnce).bound(soon) // so that this one was passed over and not merely late
	c.ran(contract.Provision, 0)
	class.edit(map[string]string{"access-modes": "", "volume-modes": "Filesystem,Block"})
	c.bound(soon)
}

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
		data:  map[string]string{"motto": nasty, "poem": "two\nlines\t$(FLEX_PV_NAME)"},
		terms: storagev1.StorageClass{Parameters: map[string]string{"fsType": nasty}},
	})
	c := class.claim("claim", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Annotations = map[string]string{
			"example.com/nasty": nasty, "example.com/lines": "a\nimage: evil\n---\n\r\tb", "example.com/quotes": `"'` + "`" + `\"`,
		}
	})
	c.bound(soon)
	env := class.env(contract.Provision, c.volumeName())
	for name, want := range map[string]string{"MOTTO": nasty, "FSTYPE": nasty, "POEM": "two\nlines\t$(FLEX_PV_NAME)"} {
		if env[name] != want {
			t.Errorf("the pod saw %s=%q, want %q", name, env[name], want)
		}
	}
	for name, value := range env {
		if name != "MOTTO" && name != "FSTYPE" && strings.Contains(value, "rm -rf") {
			t.Errorf("an annotation of the claim became %s=%q", name, value)
		}
	}
	c.consume(shared.admin)
	c.delete()
	c.gone(soon)
	if got := class.env(contract.Delete, c.volumeName())["MOTTO"]; got != nasty {
		t.Errorf("the delete pod saw MOTTO=%q, want %q", got, nasty)
	}
}

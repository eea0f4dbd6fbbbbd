//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// badConfig is a ConfigMap with a fault: changes of a good one, and what its administrator reads.
type badConfig struct {
	name    string
	changes map[string]string
	text    string
}

var badConfigs = []badConfig{
	{
		name: "misspelled key", changes: map[string]string{"node-selectr": "disk=ssd"},
		text: `data[node-selectr]: Forbidden: looks like a misspelling of the reserved key "node-selector": write "node-selector", or if a property is meant give it a name that is less like it, for example "backend-node-selectr"`,
	},
	{
		name: "no duration", changes: map[string]string{"timeout": "never"},
		text: `data[timeout]: Invalid value: "never": must be a duration with its unit, such as 90s, 10m or 1h30m`,
	},
	{
		name: "property PATH", changes: map[string]string{"PATH": "/evil"},
		text: `data[PATH]: Forbidden: would set the environment variable PATH, which is refused: where programs are found; choose another name, for example "backend-PATH"`,
	},
	{
		name: "1 MiB of properties", changes: map[string]string{"blob": strings.Repeat("x", 1<<20-4096)},
		text: `data: Too long: the names and values of all properties or parameters have 1044*** bytes, at most 16384 are allowed; put large files into the image or a Secret (key secrets)`,
	},
	{
		name: "the plugin-name of old", changes: map[string]string{"plugin-name": "kubernetes.io/flex-provisioner"},
		text: `data[plugin-name]: Invalid value: "kubernetes.io/flex-provisioner": kube-controller-manager refuses unknown provisioners under kubernetes.io/, so a claim would never reach the dispatcher; use flex-provisioner.io/dispatcher, here and as the StorageClass's provisioner`,
	},
	{
		name: "everything at once", changes: map[string]string{"max-concurrent": "many", "tiemout": "10s", "LD_PRELOAD": "x"},
		text: `[data[max-concurrent]: Invalid value: "many": must be a whole number from 0 to 10000, data[tiemout]: Forbidden: looks like a misspelling of the reserved key "timeout": *, data[LD_PRELOAD]: Forbidden: would set the environment variable LD_PRELOAD, which is refused: *]`,
	},
}

// TestBadConfig has ConfigMaps that were never right. The administrator is told the fault, the user whom to ask, and once
// it is mended the same claim is bound, without a restart.
func TestBadConfig(t *testing.T) {
	t.Parallel()
	for _, bad := range badConfigs {
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
			class.edit(bad.mended(class))
			c.bound(soon)
			c.delete()
			c.gone(soon)
			unchanged()
		})
	}
}

// mended takes the changes back.
func (bad badConfig) mended(c *class) map[string]string {
	good := map[string]string{"plugin-name": contract.ProvisionerName}
	back := map[string]string{}
	for key := range bad.changes {
		back[key] = good[key]
	}
	return back
}

// TestLastGoodConfig breaks a ConfigMap that was right. Claims go on by what it said before, and deletions too.
func TestLastGoodConfig(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{data: map[string]string{"zone": "west"}})
	class.claim("before").bound(soon)
	uid := class.edit(map[string]string{"zone": "east", "imgae": "typo"})
	s.told(soon, uid, "ConfigInvalid", `data[imgae]: Forbidden: looks like a misspelling of the reserved key "image": *`)
	c := class.claim("broken")
	c.bound(soon)
	if got := class.env(contract.Provision, c.volumeName())["ZONE"]; got != "west" {
		t.Errorf("while the ConfigMap is broken the pod saw zone %q, want the last good one, west", got)
	}
	c.delete()
	c.gone(soon)
	class.edit(map[string]string{"imgae": ""})
	c = class.claim("mended")
	c.bound(soon)
	if got := class.env(contract.Provision, c.volumeName())["ZONE"]; got != "east" {
		t.Errorf("the pod saw zone %q, want east", got)
	}
}

// TestConfigTwice gives a class a second ConfigMap. While there are two, the first stays in force, and a class that never
// had one alone has none.
func TestConfigTwice(t *testing.T) {
	t.Parallel()
	s := begin(t)
	t.Run("later", func(t *testing.T) {
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
	})
	t.Run("from the start", func(t *testing.T) {
		class := s.class("b", setting{data: map[string]string{"timeout": "never"}}) // a broken one is not yet in force
		s.told(soon, class.edit(nil), "ConfigInvalid", "data[timeout]: Invalid value: *")
		second := class.makeConfigMap(class.id+"-second", class.data)
		s.told(soon, second, "ConfigDuplicate", "*has 2 provisioner ConfigMaps*")
		class.edit(map[string]string{"timeout": ""})
		c := class.claim("from-the-start")
		c.told(soon, "ProvisionerConfigMissing",
			fmt.Sprintf("class %q has 2 provisioner ConfigMaps, %s among them: an administrator has to remove all but one", class.name, class.id))
		class.removeConfigMap(class.id + "-second")
		c.bound(soon)
	})
}

// TestNoConfig: a class whose ConfigMap comes later than its claim, and a ConfigMap whose class does.
func TestNoConfig(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{})
	class.removeConfigMap(class.id)
	c := class.claim("claim")
	c.told(soon, "ProvisionerConfigMissing", fmt.Sprintf("namespace flex-provisioners has no provisioner ConfigMap for class %q: an administrator has to create one there with the labels storage-class and type=provisioner-config", class.name))
	class.makeConfigMap(class.id, class.data)
	c.bound(soon)

	other := s.class("b", setting{})
	other.removeStorageClass()
	early := other.claim("early")
	s.told(soon, other.edit(nil), "ClassNotFound",
		fmt.Sprintf("StorageClass %q does not exist: create it with provisioner flex-provisioner.io/dispatcher, or mend the label storage-class", other.name))
	other.makeStorageClass()
	early.bound(patient) // kube-controller-manager looks again by itself, every 15 s
}

// badClaim is a claim that its class cannot serve, and what its user reads.
type badClaim struct {
	name   string
	change func(*corev1.PersistentVolumeClaim)
	data   map[string]string
	text   string
	// mend are changes of the ConfigMap that let the class serve the claim; without any, nothing can.
	mend map[string]string
}

var (
	group = "example.com"
	block = corev1.PersistentVolumeBlock
)

var badClaims = []badClaim{
	{
		name: "selector",
		change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": "ssd"}}
		},
		text: "spec.selector is set: a new volume cannot be selected by its labels; remove the selector",
	},
	{
		name: "unknown data source",
		change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: &group, Kind: "Thing", Name: "thing"}
		},
		text: `spec.dataSourceRef is Thing "thing": a new volume is empty, or a clone of a PersistentVolumeClaim; remove it, or wait for a populator of its kind`,
	},
	{
		name: "a claim as data source",
		change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
		},
		text: `the claim asks to be a clone of other: class {class} makes empty volumes only; its administrator can allow clones with parameter smartclone: "true" if its provisioner makes them`,
	},
	{
		name: "access mode", data: map[string]string{"access-modes": "ReadWriteOnce,ReadOnlyMany"},
		change: func(*corev1.PersistentVolumeClaim) {},
		text:   "spec.accessModes has ReadWriteMany: class {class} offers ReadWriteOnce, ReadOnlyMany",
		mend:   map[string]string{"access-modes": ""},
	},
	{
		name: "volume mode", change: func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block },
		text: "spec.volumeMode is Block: class {class} offers Filesystem",
		mend: map[string]string{"volume-modes": "Filesystem,Block"},
	},
	{
		name: "everything at once", data: map[string]string{"access-modes": "ReadWriteOnce"},
		change: func(c *corev1.PersistentVolumeClaim) {
			c.Spec.VolumeMode, c.Spec.Selector = &block, &metav1.LabelSelector{}
		},
		text: "spec.selector is set: a new volume cannot be selected by its labels; remove the selector; spec.accessModes has ReadWriteMany: class {class} offers ReadWriteOnce; spec.volumeMode is Block: class {class} offers Filesystem",
	},
}

// TestBadClaim has claims that ask for what their class does not offer. None gets a plain volume instead.
func TestBadClaim(t *testing.T) {
	t.Parallel()
	for _, bad := range badClaims {
		t.Run(bad.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			class := s.class("a", setting{data: bad.data})
			c := class.claim("claim", bad.change)
			c.told(soon, "ClaimRefused", strings.ReplaceAll(bad.text, "{class}", class.name))
			if bad.mend != nil {
				class.edit(bad.mend)
				c.bound(soon)
			} else {
				// A claim that came later was served, so that this one was passed over and not merely late.
				class.edit(map[string]string{"access-modes": ""})
				class.claim("good").bound(soon)
				c.ran(contract.Provision, 0)
			}
			c.delete()
			c.gone(soon)
		})
	}
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
	class := s.class("a", setting{data: map[string]string{"motto": nasty, "poem": "two\nlines\t$(FLEX_PV_NAME)"}})
	c := class.claim("claim", func(pvc *corev1.PersistentVolumeClaim) {
		pvc.Annotations = map[string]string{
			"example.com/nasty": nasty, "example.com/lines": "a\nimage: evil\n---\n\r\tb", "example.com/quotes": `"'` + "`" + `\"`,
		}
	})
	c.bound(soon)
	env := class.env(contract.Provision, c.volumeName())
	for name, want := range map[string]string{"MOTTO": nasty, "POEM": "two\nlines\t$(FLEX_PV_NAME)"} {
		if env[name] != want {
			t.Errorf("the pod saw %s=%q, want %q", name, env[name], want)
		}
	}
	for name, value := range env {
		if name != "MOTTO" && strings.Contains(value, "rm -rf") {
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

// TestNastyParameters: parameters of a StorageClass follow the rules of properties.
func TestNastyParameters(t *testing.T) {
	t.Parallel()
	s := begin(t)
	bad := s.class("a", setting{})
	bad.removeStorageClass()
	bad.terms.Parameters = map[string]string{"ld_preload": "x", "folder": "y"}
	bad.makeStorageClass()
	c := bad.claim("claim")
	c.told(soon, "ClaimRefused", fmt.Sprintf("StorageClass %q: [parameters[ld_preload]: Forbidden: would set the environment variable LD_PRELOAD, which is refused: *, parameters[folder]: Duplicate value: \"FOLDER\": data[folder] has the same environment name; rename or remove one of them]", bad.name))
	c.ran(contract.Provision, 0)
	bad.removeStorageClass()
	bad.terms.Parameters = map[string]string{"fsType": nasty}
	bad.makeStorageClass()
	c.bound(patient)
	if got := bad.env(contract.Provision, c.volumeName())["FSTYPE"]; got != nasty {
		t.Errorf("the pod saw FSTYPE=%q, want %q", got, nasty)
	}
}

// TestLiteralToken has the first design's key for a token. Pods work with their own.
func TestLiteralToken(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{data: map[string]string{"service-token": "23092390532lksf90kwelklfw"}})
	class.claim("claim").bound(soon)
	s.told(soon, class.edit(nil), "LiteralToken", "data[service-token] is not used: *")
}

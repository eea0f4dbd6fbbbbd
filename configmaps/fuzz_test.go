package configmaps

import (
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

var legalEnvName = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// FuzzParse reads any two keys of a ConfigMap that is otherwise good. Parse never panics, says the same twice, and what
// it accepts holds what Config promises.
func FuzzParse(f *testing.F) {
	// Two keys of each case of testdata are seeds enough.
	for _, cm := range readCases(f) {
		for key, value := range cm.Data {
			f.Add(key, value, "zone", "west", "silver")
		}
	}

	f.Add("Zone", "east", "zone", "west", "")
	f.Add("host-path", "/mnt/flex/a", "mount-claims", "a:/mnt/flex/a", "silver")
	f.Add("storage-class", "gold", "nodeSelector", "a=b", "")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2, class string) {
		cm := good(map[string]string{key1: value1, key2: value2})
		cm.Labels["storage-class"] = class
		config, errs := Parse(cm)
		again, errsAgain := Parse(cm)
		if !reflect.DeepEqual(config, again) || !reflect.DeepEqual(texts(errs), texts(errsAgain)) {
			t.Fatalf("not the same twice: %v %v", errs, errsAgain)
		}

		if (config == nil) != (len(errs) > 0) {
			t.Fatalf("config %v with errors %v", config, errs)
		}

		if config != nil {
			checkInvariants(t, cm, config)
		}
	})
}

func checkInvariants(t *testing.T, cm *corev1.ConfigMap, c *Config) {
	t.Helper()
	envNames := map[string]bool{}
	size := 0
	for key, value := range c.Properties {
		name := contract.EnvName(key)
		if envNames[name] || !legalEnvName.MatchString(name) || refusedReason(name) != "" || IsReserved(key) || misspellingOf(key) != "" {
			t.Errorf("property %q was accepted", key)
		}

		envNames[name] = true
		size += len(key) + len(value)
	}

	known := 0
	for key := range cm.Data {
		if IsReserved(key) {
			known++
		}
	}

	if len(c.Properties)+known != len(cm.Data) {
		t.Errorf("a key was lost: %d properties and %d reserved keys of %d", len(c.Properties), known, len(cm.Data))
	}

	if size > maxProperties || len(c.Provision) > maxScript || len(c.Delete) > maxScript || (c.Provision == "") != (c.Delete == "") {
		t.Errorf("sizes: properties %d, scripts %d and %d", size, len(c.Provision), len(c.Delete))
	}

	for _, name := range append([]string{c.StorageClass, c.ServiceAccountName}, append(c.Secrets, c.ImagePullSecrets...)...) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			t.Errorf("name %q was accepted", name)
		}
	}

	for key, value := range c.NodeSelector {
		if len(validation.IsQualifiedName(key))+len(validation.IsValidLabelValue(value)) > 0 {
			t.Errorf("label %q=%q was accepted", key, value)
		}
	}

	checkPodInvariants(t, c)
}

func checkPodInvariants(t *testing.T, c *Config) {
	t.Helper()
	paths := map[string]bool{"/tmp": true}
	var mounted []string
	for _, h := range c.HostPaths {
		mounted = append(mounted, h.Path)
	}

	for _, m := range c.MountClaims {
		mounted = append(mounted, m.Path)
	}

	for _, p := range mounted {
		if paths[p] || !filepath.IsAbs(p) || filepath.Clean(p) != p {
			t.Errorf("mount at %q was accepted", p)
		}

		paths[p] = true
	}

	if len(c.HostPaths) > maxItems || len(c.MountClaims) > maxItems || len(c.Devices) > maxItems || len(c.Capabilities) > maxItems || len(c.Secrets) > maxItems || len(c.AccessModes) == 0 || len(c.VolumeModes) == 0 {
		t.Errorf("lengths of lists: %+v", c)
	}

	for _, d := range c.Devices {
		if filepath.Dir(d.Path) != "/dev" {
			t.Errorf("device %q was accepted", d.Path)
		}
	}

	for _, names := range []map[string]string{c.PodLabels, c.PodAnnotations} {
		for key := range names {
			if len(names) > maxItems || len(validation.IsQualifiedName(key)) > 0 || strings.HasPrefix(key, contract.Prefix) || strings.Contains(key, ".k8s.io/") {
				t.Errorf("the pod's %q was accepted", key)
			}
		}
	}

	if !c.Root() && len(c.Capabilities) > 0 || c.UserOfNamespace && c.RunAsUser != nil || strings.HasPrefix(c.PriorityClassName, "system-") {
		t.Errorf("privileges: %+v", c)
	}

	for name, limit := range c.Resources.Limits {
		if request, ok := c.Resources.Requests[name]; limit.Sign() <= 0 || ok && request.Cmp(limit) > 0 {
			t.Errorf("%s: request %s and limit %s were accepted", name, request.String(), limit.String())
		}
	}

	if c.MinSize < 0 || c.MaxSize < 0 || c.MaxSize > 0 && c.MinSize > c.MaxSize {
		t.Errorf("sizes: %+v", c)
	}

	if c.Timeout < 1 || c.StartTimeout < 1 || c.FailedPodTTL < 0 || c.MaxConcurrent < 0 || c.RunAsUser != nil && *c.RunAsUser < 0 {
		t.Errorf("numbers: %+v", c)
	}
}

//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestServedAndDeleted: a dispatcher whose caches show a claim that waits, while it was served by another and is gone with
// its volume and its pods. It asks the API server before it makes a pod, and makes none.
func TestServedAndDeleted(t *testing.T) {
	s := begin(t)
	class := s.class("a", setting{})
	class.removeConfigMap(class.id)
	old := s.lagging()
	c := class.claim("claim")
	s.wait(patient, "both know the claim", func() string {
		if n := old.times("POST", "/api/v1/namespaces/"+s.name+"/events"); n == 0 {
			return "the one with old caches has not told that the ConfigMap is missing"
		}
		return ""
	})
	old.hold("persistentvolumeclaims", "persistentvolumes", "pods", "configmaps")
	class.makeConfigMap(class.id, class.data)
	c.bound(patient)
	s.wait(patient, "pods acted on", c.busy)
	c.delete()
	c.gone(patient)

	claim := fmt.Sprintf("/api/v1/namespaces/%s/persistentvolumeclaims/%s", s.name, c.Name)
	pods := "/api/v1/namespaces/" + contract.ProvisionersNamespace + "/pods"
	if n := old.times("GET", claim) + old.times("POST", pods); n != 0 {
		t.Errorf("it asked %d times for the claim or a pod, although its caches were held back", n)
	}
	old.looks(claim)
	if n := old.times("POST", pods); n != 0 {
		t.Errorf("it asked %d times for a pod", n)
	}
	c.ran(contract.Provision, 1)
	c.ran(contract.Delete, 1)
	class.once()
}

// TestExpandOldCache: a dispatcher whose caches show a claim that asks for more, while its volume was expanded by another. It
// asks the API server before it makes a pod, makes none, and writes on neither claim nor volume.
func TestExpandOldCache(t *testing.T) {
	s := begin(t)
	class := s.class("a", growing(noteSizes))
	data := class.claim("data")
	data.bound(patient)
	s.wait(patient, "pods acted on", data.busy)
	class.removeConfigMap(class.id)
	old := s.lagging()
	data.ask("128Mi")
	s.wait(patient, "both know what the claim asks for", func() string {
		if n := old.times("POST", "/api/v1/namespaces/default/events") + old.times("POST", "/api/v1/namespaces/"+s.name+"/events"); n == 0 {
			return "the one with old caches has not told that the ConfigMap is missing"
		}
		return ""
	})
	old.hold("persistentvolumeclaims", "persistentvolumes", "pods", "configmaps")
	class.makeConfigMap(class.id, class.data)
	data.has("128Mi")
	s.wait(patient, "pods acted on", data.busy)

	claim := fmt.Sprintf("/api/v1/namespaces/%s/persistentvolumeclaims/%s", s.name, data.Name)
	old.looks(claim)
	for method, path := range map[string]string{
		"POST": "/api/v1/namespaces/" + contract.ProvisionersNamespace + "/pods", "PATCH": "/api/v1/persistentvolumes/" + data.volumeName(),
	} {
		if n := old.times(method, path); n != 0 {
			t.Errorf("%d times %s %s", n, method, path)
		}
	}
	if n := old.times("PATCH", claim) + old.times("PATCH", claim+"/status"); n != 0 {
		t.Errorf("it wrote on the claim %d times", n)
	}
	class.once()
	if lack := s.lines(class, "sizes", "64 128"); lack != "" {
		t.Error(lack)
	}
}

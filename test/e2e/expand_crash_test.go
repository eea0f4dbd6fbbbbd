//go:build e2e

package e2e

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// A pod that was killed may have expanded the storage: the same size is tried again, although less would do by now.
func TestExpandPodKilled(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := s.class("a", growing(noteSizes+stopOnce))
	data := c.claim("data")
	data.bound(soon)
	data.ask("128Mi")
	s.wait(patient, "script stopped", func() string { return s.lines(c, "sizes", "64 128") })
	s.running(contract.Expand, []*claim{data})
	data.ask("100Mi")
	for _, p := range data.livePods() {
		s.ok(killed(t.Context(), p))
	}
	data.has("128Mi")
	if lack := s.lines(c, "sizes", "64 128", "64 128"); lack != "" {
		t.Error(lack)
	}
}

// While no dispatcher works, the pod of one claim runs on, another claim asks for more, and the volume of a third is left as one is whose
// dispatcher died before it told the claim. The next dispatcher finds the pod, expands the second, and only tells the third.
func TestExpandDispatcherDead(t *testing.T) {
	s := begin(t)
	s.freshDispatcher()
	c := s.class("a", growing(noteSizes+gate))
	runs, asks, grown := c.claim("runs"), c.claim("asks"), c.claim("grown")
	all := []*claim{runs, asks, grown}
	for _, data := range all {
		data.bound(soon)
	}
	runs.ask("128Mi")
	s.wait(soon, "pod runs", func() string { return s.lines(c, "sizes", "64 128") })
	s.ok(killed(t.Context(), s.leader()))
	c.open(contract.Expand, runs.volumeName())
	s.patchVolume(grown.volumeName(), `{"spec":{"capacity":{"storage":"128Mi"}}}`)
	c.open(contract.Expand, asks.volumeName())
	asks.ask("128Mi")
	grown.ask("128Mi")
	for _, data := range all {
		data.has("128Mi")
	}
	if pods := shared.ran(contract.Expand, grown.UID); len(pods) > 0 {
		t.Errorf("pod %s ran for storage that was as large already", pods[0].Name)
	}
	if lack := s.lines(c, "sizes", "64 128", "64 128"); lack != "" {
		t.Error(lack)
	}
}

// Without a ConfigMap a volume waits to be expanded. Once it is back it is, without the StorageClass; a pod that runs when
// the ConfigMap goes ends as it would.
func TestExpandClassGone(t *testing.T) {
	t.Parallel()
	s := begin(t)
	c := s.class("a", growing(noteSizes+gate))
	runs, waits := c.claim("runs"), c.claim("waits")
	for _, data := range []*claim{runs, waits} {
		data.bound(soon)
	}
	runs.ask("128Mi")
	s.running(contract.Expand, []*claim{runs})
	c.removeConfigMap(c.id)
	waits.ask("256Mi") // refused by the API server without a StorageClass that allows it
	waits.told(soon, "ProvisionerConfigMissing", "the volume waits to be expanded: namespace flex-provisioners has no provisioner ConfigMap for class *")
	c.removeStorageClass()
	c.open(contract.Expand, runs.volumeName())
	runs.has("128Mi")
	if pods := shared.ran(contract.Expand, waits.UID); len(pods) > 0 {
		t.Errorf("pod %s ran without a ConfigMap", pods[0].Name)
	}
	c.open(contract.Expand, waits.volumeName())
	c.makeConfigMap(c.id, c.data)
	waits.has("256Mi")
	if lack := s.lines(c, "sizes", "64 128", "64 256"); lack != "" {
		t.Error(lack)
	}
}

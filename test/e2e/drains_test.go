//go:build e2e

package e2e

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// drains are cases of TestSpareNodes: a node drains within a minute, forced or not, whether a provisioner pod runs on it, has failed there,
// or waits there for its image.
func drains(show func(s *scope, flags []string)) func(*scope) {
	return func(s *scope) {
		for _, flags := range [][]string{nil, {"--force"}} {
			show(s, flags)
		}
	}
}

// drain drains a node of the claim's pods, until it is made schedulable again.
func (c *claim) drain(node string, flags []string) (uncordon func(context.Context) error) {
	s := c.s
	s.Helper()
	uncordon = func(ctx context.Context) error {
		_, err := kubectl(ctx, "uncordon", node)
		return err
	}
	s.later(uncordon)
	args := []string{"drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s",
		"--pod-selector=" + contract.LabelClaimUID + "=" + string(c.UID)}
	_, err := kubectl(s.Context(), append(args, flags...)...)
	s.ok(err)
	return uncordon
}

// records are the names of the claim's saved pods.
func (c *claim) records() (names []string) {
	s := c.s
	s.Helper()
	list, err := shared.admin.AppsV1().ControllerRevisions(contract.ProvisionersNamespace).List(s.Context(),
		metav1.ListOptions{LabelSelector: contract.LabelClaimUID + "=" + string(c.UID)})
	s.ok(err)
	for _, record := range list.Items {
		names = append(names, record.Name)
	}
	return names
}

// noRecords is what lacks until nothing is left of the claim's saved pods.
func (c *claim) noRecords() {
	c.s.Helper()
	c.s.wait(patient, "no record of a pod is left", func() string { return strings.Join(c.records(), " ") })
}

// suffixOf tells the classes of the runs of one test apart.
func suffixOf(flags []string) string { return "a" + strings.Trim(strings.Join(flags, ""), "-") }

func drainedWhileRunning(s *scope, flags []string) {
	c := s.spareClass(suffixOf(flags), setting{provision: makeDir + gate + makeVolume}).claim("running" + suffixOf(flags))
	uncordon := c.drain(c.atGate(), flags)
	c.told(patient, "ProvisionerEvicted", "the pod was disrupted: EvictionByEvictionAPI: Eviction API: evicting; the next attempt follows (pod {pod})*")
	c.goesOn()
	if on := c.ranOn(contract.Provision); on != "node2 node3" {
		s.Errorf("the pods ran on %s", on)
	}
	c.noRecords()
	c.class.once()
	s.ok(uncordon(s.Context()))
}

// drainedAfterFailure: the next attempts go on, and what the first one made is found.
func drainedAfterFailure(s *scope, flags []string) {
	const open = "[ -e \"$home/gates/$FLEX_OPERATION-$FLEX_PV_NAME\" ] || exit 1\n"
	class := s.spareClass(suffixOf(flags), setting{provision: makeDir + open + makeVolume, data: map[string]string{"node-selector": corev1.LabelHostname + "=node2"}})
	c := class.claim("failing" + suffixOf(flags))
	c.told(patient, "ProvisionerFailed", "the container exited with code 1 and left no message (pod {pod})*")
	uncordon := c.drain("node2", flags)
	if first := podspec.Name(contract.Provision, string(c.UID), 0); !slices.Contains(c.records(), first) {
		s.Errorf("there are the records %q, and none of pod %s", c.records(), first)
	}
	class.edit(map[string]string{"node-selector": corev1.LabelHostname + "=node3"})
	c.goesOn()
	c.noRecords()
	s.ok(uncordon(s.Context()))
}

// drainedWhileWaiting: the pod is on its node, and its image cannot be had.
func drainedWhileWaiting(s *scope, flags []string) {
	class := s.spareClass(suffixOf(flags), setting{provision: makeDir + makeVolume, data: map[string]string{
		"node-selector": corev1.LabelHostname + "=node2", "image": "registry.invalid/flex-provisioner/none:none"}})
	c := class.claim("pulling" + suffixOf(flags))
	c.told(patient, "ProvisionerImagePullFailed", "image registry.invalid/flex-provisioner/none:none cannot be had: *")
	uncordon := c.drain("node2", flags)
	s.ok(uncordon(s.Context()))
	class.edit(map[string]string{"image": shellImage})
	c.bound(patient)
	c.noRecords()
}

// removedFromCordoned: storage of a node is removed while the node takes no other pods.
func (s *scope) removedFromCordoned(of *class) {
	s.Helper()
	c := of.claim("cordoned", readWriteOnce)
	s.finished(c.consumer(shared.admin, onSpare("node2")), "hello from cordoned\n")
	uncordon := func(ctx context.Context) error {
		_, err := kubectl(ctx, "uncordon", "node2")
		return err
	}
	s.later(uncordon)
	_, err := kubectl(s.Context(), "cordon", "node2")
	s.ok(err)
	c.delete()
	c.gone(patient)
	if c.hasStorage("node2") {
		s.Errorf("the storage of claim %s is left on its cordoned node", c.Name)
	}
	s.ok(uncordon(s.Context()))
}

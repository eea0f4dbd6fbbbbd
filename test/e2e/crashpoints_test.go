//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// stopOnce waits for ever in the first run, having told where it is by a file.
const stopOnce = "if [ ! -e \"$home/seen/stopped\" ]; then touch \"$home/seen/stopped\"; trap '' TERM; while :; do sleep 0.1; done; fi\n"

// TestPodKilled kills the container of a provisioner by SIGKILL at three moments. One storage and one volume come of it,
// and nothing is left afterwards.
func TestPodKilled(t *testing.T) {
	t.Parallel()
	for _, moment := range []struct {
		name, provision string
		attempts        int
	}{
		{"before it made anything", stopOnce + makeDir + makeVolume, 2},
		{"after it made the storage", makeDir + stopOnce + makeVolume, 2},
		{"after it made the volume", makeDir + makeVolume + stopOnce, 1},
	} {
		t.Run(moment.name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			class := s.class("a", setting{provision: moment.provision})
			c := class.claim("claim")
			s.wait(patient, "script stopped", func() string {
				if !exists(class.dir() + "/seen/stopped") {
					return "it has not come there"
				}
				return ""
			})
			s.running(contract.Provision, []*claim{c})
			for _, p := range c.livePods() {
				s.ok(killed(t.Context(), p))
			}
			c.bound(patient)
			s.wait(patient, "pods acted on", c.busy)
			c.ran(contract.Provision, moment.attempts)
			if names := class.volumes(); len(names) != 1 || names[0] != c.volumeName() {
				t.Errorf("the storage has %v", names)
			}
			c.delete()
			c.gone(patient)
			c.ran(contract.Delete, 1)
		})
	}
}

// TestDispatcherDead: what happens while no dispatcher works is made up for by the next. A claim that was made meanwhile is
// served, and one that was deleted while its pod ran leaves nothing, whether the pod made the volume or failed.
func TestDispatcherDead(t *testing.T) {
	s := begin(t)
	s.freshDispatcher()
	makes := s.class("a", setting{provision: makeDir + gate + makeVolume})
	fails := s.class("b", setting{provision: makeDir + gate + "exit 1\n"})
	deleted := []*claim{makes.claim("deleted-a"), fails.claim("deleted-b")}
	s.running(contract.Provision, deleted)
	leader, was := s.leader(), holder()
	s.ok(killed(t.Context(), leader))
	meanwhile := makes.claim("meanwhile")
	makes.open(contract.Provision, meanwhile.volumeName())
	for _, c := range deleted {
		c.delete()
	}
	s.wait(patient, "claims gone", func() string { return first(deleted, (*claim).present) })
	for _, c := range deleted {
		c.class.open(contract.Provision, c.volumeName())
	}
	s.newLeader(was)
	meanwhile.bound(patient)
	meanwhile.ran(contract.Provision, 1)
	for _, c := range deleted {
		c.gone(patient)
		c.ran(contract.Provision, 1)
		c.ran(contract.Delete, 1)
	}
}

// TestClassGone deletes StorageClass and ConfigMap of a class. What was made is kept until the ConfigMap is back, and then
// removed without the StorageClass; what was not made is, once both are back.
func TestClassGone(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{})
	made := class.claim("made")
	made.bound(soon)
	volume := made.volume().UID
	class.removeConfigMap(class.id)
	class.removeStorageClass()
	waiting := class.claim("waiting")
	made.delete()
	s.told(soon, volume, "ProvisionerConfigMissing", "storage waits to be removed: namespace flex-provisioners has no provisioner ConfigMap for class *")
	if !exists(made.directory()) {
		t.Error("the storage was removed")
	}
	class.makeConfigMap(class.id, class.data)
	made.gone(patient)
	waiting.ran(contract.Provision, 0)
	class.makeStorageClass()
	waiting.bound(patient)
	waiting.ran(contract.Provision, 1)
}

// TestVolumeDeletedInUse deletes a volume while it is bound, which keeps it until its claim goes, and makes another one
// Retain while its delete pod runs and fails: it is kept.
func TestVolumeDeletedInUse(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{remove: gate + "[ ! -e \"$home/gates/fail\" ] || exit 1\n" + removeDir})
	inUse, retained := class.claim("in-use"), class.claim("retained")
	for _, c := range []*claim{inUse, retained} {
		c.bound(soon)
	}
	class.open(contract.Delete, inUse.volumeName())
	s.ok(shared.admin.CoreV1().PersistentVolumes().Delete(t.Context(), inUse.volumeName(), metav1.DeleteOptions{}))
	inUse.consume(shared.admin)
	inUse.delete()
	inUse.gone(patient)
	inUse.ran(contract.Delete, 1)

	retained.delete()
	s.running(contract.Delete, []*claim{retained})
	s.reclaim(retained, corev1.PersistentVolumeReclaimRetain)
	s.ok(os.WriteFile(class.dir()+"/gates/fail", nil, 0o644))
	class.open(contract.Delete, retained.volumeName())
	s.wait(patient, "pods acted on", retained.busy)
	if v := retained.volume(); v == nil || !exists(retained.directory()) {
		t.Error("volume or storage was removed, although it is retained")
	}
	retained.ran(contract.Delete, 1)
	s.ok(os.Remove(class.dir() + "/gates/fail"))
	s.reclaim(retained, corev1.PersistentVolumeReclaimDelete)
	retained.gone(patient)
}

// TestNodeLocalLost takes the node away that has a class's storage, or may have some. The next attempt, the undo and the
// delete wait for it, although others would take their pods, and run when it is back.
func TestNodeLocalLost(t *testing.T) {
	t.Parallel()
	s := begin(t)
	west, east := s.nodes()
	class := s.class("a", setting{data: map[string]string{"node-local": "true", "node-selector": west, "sim-duration": "5s",
		"tolerations": `[{key: flex-provisioner.io/simulated, operator: Exists}]`}})
	removed := class.claim("removed")
	removed.bound(soon)
	s.livesOn(removed, s.name)
	class.edit(map[string]string{"node-selector": east})
	again, undone := class.claim("again"), class.claim("undone")
	s.running(contract.Provision, []*claim{again, undone})
	class.edit(map[string]string{"node-selector": ""})
	s.loseNode()

	s.waitsForNode(again, contract.Provision)
	removed.delete()
	undone.delete()
	s.waitsForNode(removed, contract.Delete)
	s.waitsForNode(undone, contract.Delete)
	again.told(soon, "ProvisionerUnschedulable", "*")
	s.makeNode()
	s.wait(patient, "the delete and the undo ran", func() string { return first([]*claim{removed, undone}, (*claim).left) })
	s.running(contract.Provision, []*claim{again})
	again.delete()
	s.goneOnceAnswered(again) // a simulated pod says that it made a volume
	for _, c := range []*claim{removed, again, undone} {
		for _, p := range append(shared.ran(contract.Provision, c.UID), shared.ran(contract.Delete, c.UID)...) {
			if node := p.Spec.NodeName; node != "" && node != s.name && (c != removed || p.Labels[contract.LabelOperation] != string(contract.Provision)) {
				t.Errorf("pod %s ran on node %q, and the storage is on %s", p.Name, node, s.name)
			}
		}
	}
	s.ok(os.RemoveAll(removed.directory())) // a simulated pod removes nothing
}

// livesOn says of the claim's volume that its storage is on the node.
func (s *scope) livesOn(c *claim, node string) {
	s.Helper()
	s.patchVolume(c.volumeName(), fmt.Sprintf(`{"spec":{"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":[%q]}]}]}}}}`, node))
}

// waitsForNode waits until a pod of the operation that ran nowhere yet may run on no node but the test's simulated one. A
// simulated pod of an attempt may have ended, which says that it made a volume.
func (s *scope) waitsForNode(c *claim, operation contract.Operation) {
	s.Helper()
	s.wait(2*patient, fmt.Sprintf("the %s of claim %s waits for the node", operation, c.Name), func() string {
		s.answerAny(c)
		for _, p := range c.livePods() {
			if p.Labels[contract.LabelOperation] != string(operation) || p.Spec.NodeName != "" {
				continue
			}
			for _, condition := range p.Status.Conditions {
				if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
					return ""
				}
			}
		}
		return c.left() + showEvents(eventsOn(c.UID))
	})
}

//go:build e2e

package e2e

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestSpareNodes takes nodes away from provisioner pods, in all the ways in which nodes go. It takes longest of all parallel tests, and
// Go starts these in the order of their files' names.
func TestSpareNodes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		show func(*scope)
	}{
		{"a network that one node has", networkOfOneNode},
		{"the power comes back", powerComesBack},
		{"the power comes back, and the disk is empty", diskIsEmpty},
		{"the power never comes back", powerNeverComesBack},
		{"the node is drained while a pod runs", drains(drainedWhileRunning)},
		{"the node is drained after a pod failed", drains(drainedAfterFailure)},
		{"the node is drained while a pod waits", drains(drainedWhileWaiting)},
		{"the kubelet restarts", kubeletRestarts},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := begin(t)
			s.needSpareNodes()
			c.show(s)
		})
	}
}

// networkOfOneNode: provisioner pods of a node reach what is reached from that node alone, and no other pods do.
func networkOfOneNode(s *scope) {
	const address = "10.99.1.1"
	s.listenOn("node2", address)
	const ask = "[ \"$(nc -w 3 " + address + " 7000 < /dev/null)\" = storage ] || flexctl fail \"the storage network cannot be reached\"\n"
	for _, node := range spareNodes {
		class := s.spareClass(node, setting{data: map[string]string{"node-selector": corev1.LabelHostname + "=" + node}, provision: ask + makeDir + makeVolume})
		c := class.claim("on-" + node)
		if node == "node2" {
			c.bound(patient)
		} else {
			c.told(patient, "ProvisionerFailed", "the storage network cannot be reached (pod {pod})")
		}
		if on := c.ranOn(contract.Provision); on != node {
			s.Errorf("pods of claim %s ran on %s", c.Name, on)
		}
	}
}

// waiting is a claim whose script has made its directory on a spare node, and waits at its gate.
func (s *scope) waiting() (c *claim, node string) {
	s.Helper()
	class := s.spareClass("a", setting{provision: makeDir + gate + makeVolume})
	c = class.claim("waiting")
	return c, c.atGate()
}

// goesOn opens the gate, and waits until the claim is bound to the one directory that there is.
func (c *claim) goesOn() {
	c.s.Helper()
	c.class.open(contract.Provision, c.volumeName())
	c.bound(2 * patient)
	if found := c.class.volumes(); !slices.Equal(found, []string{c.volumeName()}) {
		c.s.Errorf("there is storage %v, want that of volume %s", found, c.volumeName())
	}
	c.consume(shared.admin)
}

func powerComesBack(s *scope) {
	c, node := s.waiting()
	s.kill(node)
	s.powered(node)
	c.told(patient, "ProvisionerFailed", "the container exited with code 255 and left no message (pod {pod})*")
	c.goesOn()
	c.ran(contract.Provision, 2)
	c.class.once()
}

// diskIsEmpty: the kubelet was told that the pod runs, and finds no container of it.
func diskIsEmpty(s *scope) {
	c, node := s.waiting()
	s.kill(node)
	s.powered(node, "--empty")
	c.told(patient, "ProvisionerFailed", "*its node does not know how *")
	c.goesOn()
	c.ran(contract.Provision, 2)
	c.class.once()
}

// powerNeverComesBack until an administrator says so.
func powerNeverComesBack(s *scope) {
	class := s.spareClass("a", setting{provision: makeDir + gate + makeVolume, data: map[string]string{
		"node-selector": corev1.LabelHostname + "=node2",
		"tolerations":   "[{key: " + spare + ", operator: Exists}, {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]",
	}})
	c := class.claim("waiting")
	c.atGate()
	s.kill("node2")
	c.told(3*patient, "ProvisionerNodeLost", "node node2 is not ready, and does not say whether the pod still runs; "+
		"bring the node back, or if it never comes back: kubectl delete node node2 (pod {pod})")
	c.ran(contract.Provision, 1)

	class.data["node-selector"] = spare + "=true"
	class.edit(class.data)
	_, err := kubectl(s.Context(), "delete", "node", "node2")
	s.ok(err)
	c.goesOn()
	if on := c.ranOn(contract.Provision); on != "node2 node3" {
		s.Errorf("the pods ran on %s", on)
	}
	c.ran(contract.Provision, 2)

	s.powered("node2")
	c.class.once()
}

func kubeletRestarts(s *scope) {
	c, node := s.waiting()
	s.ctl("restart", "kubelet@"+node)
	s.wait(patient, node+" is ready", func() string { return s.notReady(node) })
	c.goesOn()
	c.ran(contract.Provision, 1)
	c.class.once()
}

// TestStorageOfNodes: a volume is where its first consumer is, and where its class's allowedTopologies want it. Its storage waits for
// a node that is lost.
func TestStorageOfNodes(t *testing.T) {
	installedAfter(t)
	s := begin(t)
	s.needSpareNodes()
	hostpath := s.spareExample("hostpath")
	for _, node := range spareNodes {
		c := hostpath.claim("of-"+node, readWriteOnce)
		s.finished(c.consumer(shared.admin, onSpare(node)), "hello from "+c.Name+"\n")
		c.storedOn(node)
	}
	s.topology(hostpath)
	s.removedFromCordoned(hostpath)

	lost := hostpath.claim("lost", readWriteOnce)
	s.finished(lost.consumer(shared.admin, onSpare("node2")), "hello from lost\n")
	s.kill("node2")
	_, err := kubectl(t.Context(), "delete", "node", "node2")
	s.ok(err)
	lost.delete()
	s.told(patient, lost.volume().UID, "ProvisionerUnschedulable", "the pod has to run on node node2, which does not take it: *")
	s.powered("node2")
	lost.gone(patient)
	if lost.hasStorage("node2") {
		t.Error("its storage is left on node2")
	}
}

// topology takes a claim of a copy of the class through, whose volumes are of one node.
func (s *scope) topology(of *class) {
	s.Helper()
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	copied := &class{s: s, name: s.name + "-node3", id: of.id, terms: storagev1.StorageClass{VolumeBindingMode: &wait,
		Parameters: map[string]string{contract.ParameterConfigFromClass: of.name},
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelHostname, Values: []string{"node3"}}}}},
	}}
	s.classes = append(s.classes, copied)
	s.ok(copied.patchAllowList(s.Context(), map[string]any{"storageClasses": of.name + "," + copied.name}))
	copied.makeStorageClass()
	c := copied.claim("topology", readWriteOnce)
	s.finished(c.consumer(shared.admin, onSpare("")), "hello from topology\n")
	c.storedOn("node3")
}

// storedOn fails unless the claim's storage of the class hostpath is on that spare node alone, and its provisioner ran there.
func (c *claim) storedOn(want string) {
	c.s.Helper()
	for _, node := range spareNodes {
		if has := c.hasStorage(node); has != (node == want) {
			c.s.Errorf("node %s has the storage of claim %s: %t", node, c.Name, has)
		}
	}
	if on := c.ranOn(contract.Provision); on != want {
		c.s.Errorf("the provisioner of claim %s ran on %s, want %s", c.Name, on, want)
	}
}

func (c *claim) hasStorage(node string) bool {
	_, err := command(c.s.Context(), "test/cluster/enter.sh", "--node", node, "test", "-e", "/var/lib/flex-hostpath/"+c.volumeName()+"/hello")
	return err == nil
}

// spareExample installs a class of examples/. Its pods may run on spare nodes as well.
func (s *scope) spareExample(name string) *class {
	s.Helper()
	s.later(example{name: name, configMap: name, account: name}.removeClass)
	_, err := kubectl(s.Context(), "apply", "--server-side", "--field-manager="+name, "-k", "examples/"+name)
	s.ok(err)
	s.ok(s.deleteExample(s.Context(), name))
	c := &class{s: s, id: name, name: name}
	// What a test writes itself is no line of the example's field manager.
	s.later(func(ctx context.Context) error {
		return c.patchAllowList(ctx, map[string]any{"storageClasses": nil})
	})
	c.edit(map[string]string{"tolerations": toleration})
	s.classes = append(s.classes, c)
	s.rolledOut()
	return c
}

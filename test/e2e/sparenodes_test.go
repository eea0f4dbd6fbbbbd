//go:build e2e

package e2e

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// TestStorageOfNodes: a volume is where its first consumer is, and where its class's allowedTopologies want it. Its storage waits for
// a node that is lost.
func TestStorageOfNodes(t *testing.T) {
	t.Cleanup(func() {
		if err := oneDispatcher(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s := begin(t)
	s.needSpareNodes()
	hostpath := s.hostpath()
	for _, node := range spareNodes {
		c := hostpath.claim("of-"+node, readWriteOnce)
		s.finished(c.consumer(shared.admin, onSpare(node)), "hello from "+c.Name+"\n")
		c.storedOn(node)
	}
	s.topology(hostpath)

	lost := hostpath.claim("lost", readWriteOnce)
	s.finished(lost.consumer(shared.admin, onSpare("node2")), "hello from lost\n")
	s.kill("node2")
	_, err := kubectl(t.Context(), "delete", "node", "node2")
	s.ok(err)
	lost.delete()
	s.told(patient, lost.volume().UID, "ProvisionerUnschedulable", "no node takes the pod: *")
	s.powered("node2")
	lost.gone(patient)
	if lost.hasStorage("node2") {
		t.Error("its storage is left on node2")
	}
}

// topology takes a claim of a copy of the class through, whose volumes are of one node.
func (s *scope) topology(of *class) {
	s.Helper()
	copied := &class{s: s, name: s.name + "-node3", id: of.id, terms: storagev1.StorageClass{
		Parameters: map[string]string{contract.ParameterConfigFromClass: of.name},
		AllowedTopologies: []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{
			{Key: corev1.LabelHostname, Values: []string{"node3"}}}}},
	}}
	s.classes = append(s.classes, copied)
	s.ok(copied.patchAllowList(s.Context(), map[string]any{"storageClasses": of.name + "," + copied.name}))
	copied.makeStorageClass()
	c := copied.claim("topology", readWriteOnce)
	c.bound(patient)
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

// hostpath installs the example. Its pods may run on spare nodes as well.
func (s *scope) hostpath() *class {
	s.Helper()
	s.later(example{name: "hostpath", configMap: "hostpath", account: "hostpath"}.removeClass)
	_, err := kubectl(s.Context(), "apply", "-k", "examples/hostpath")
	s.ok(err)
	s.ok(s.deleteExample(s.Context(), "hostpath"))
	c := &class{s: s, id: "hostpath", name: "hostpath"}
	c.edit(map[string]string{"tolerations": toleration})
	s.classes = append(s.classes, c)
	s.rolledOut()
	return c
}

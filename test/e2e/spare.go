//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// spareNodes are the nodes beside node1. They have a label and a taint, both called spare, so that they run nothing that does not ask
// for them. Tests may take their power.
var spareNodes = []string{"node2", "node3"}

const spare = "flex-provisioner.io/spare"

// toleration is that of the taint, as the key tolerations has it.
const toleration = "[{key: " + spare + ", operator: Exists}]"

// needSpareNodes ends the test where there are none.
func (s *scope) needSpareNodes() {
	s.Helper()
	for _, node := range spareNodes {
		if lack := s.notReady(node); lack != "" {
			s.Fatalf("%s: make cluster-down, NODES=3 SPARE=1 make cluster-up", lack)
		}
	}
}

// notReady says what keeps a spare node from running pods.
func (s *scope) notReady(name string) string {
	node, err := shared.admin.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err.Error()
	case node.Labels[spare] != "true" || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != spare:
		return fmt.Sprintf("node %s has labels %v and taints %v", name, node.Labels, node.Spec.Taints)
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return ""
		}
	}
	return "node " + name + " is not ready"
}

// spareClass is a class whose pods run on spare nodes.
func (s *scope) spareClass(suffix string, want setting) *class {
	s.Helper()
	data := map[string]string{"node-selector": spare + "=true", "tolerations": toleration}
	maps.Copy(data, want.data)
	want.data = data
	return s.class(suffix, want)
}

// onSpare makes a pod run on that spare node, or on any if it is empty.
func onSpare(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.NodeSelector = map[string]string{spare: "true"}
		if node != "" {
			p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
		}
		p.Spec.Tolerations = []corev1.Toleration{{Key: spare, Operator: corev1.TolerationOpExists}}
	}
}

// prefersSpare makes a pod run on any spare node, and on that one if its volumes let it.
func prefersSpare(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		onSpare("")(p)
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}}}}}}}
	}
}

// atGate waits until the claim's script has made its directory, which is before its gate, and returns the node.
func (c *claim) atGate() (node string) {
	c.s.Helper()
	c.s.running(contract.Provision, []*claim{c})
	c.s.wait(soon, "script at its gate", c.noDirectory)
	for _, p := range c.livePods() {
		if p.Status.Phase == corev1.PodRunning {
			return p.Spec.NodeName
		}
	}
	c.s.Fatalf("no pod runs for claim %s", c.Name)
	return ""
}

// powered gives a spare node its power back, and waits until it is ready. With the option --empty it has an empty disk.
func (s *scope) powered(node string, options ...string) {
	s.Helper()
	s.ctl(append([]string{"start", node}, options...)...)
	if len(options) > 0 {
		s.ok(cluster.LoadImages(s.Context(), repository, "*", "--node", node))
	}
	s.wait(patient, node+" is ready", func() string { return s.notReady(node) })
}

// listenOn answers "storage" on an address that only one node has, until the test ends.
func (s *scope) listenOn(node, address string) {
	s.Helper()
	inside := []string{"--node", node}
	_, err := command(s.Context(), append([]string{"test/cluster/enter.sh"}, append(inside, "ip", "addr", "add", address+"/32", "dev", "lo")...)...)
	s.ok(err)
	s.later(func(ctx context.Context) error {
		_, err := command(ctx, append([]string{"test/cluster/enter.sh"}, append(inside, "ip", "addr", "del", address+"/32", "dev", "lo")...)...)
		return err
	})
	s.runsOnNode(append(inside, "socat", "TCP-LISTEN:7000,fork,reuseaddr,bind="+address, "SYSTEM:echo storage")...)
}

// ranOn are the nodes on which there were pods of the claim and the operation, each once. A pod that waits for its node counts for none.
func (c *claim) ranOn(operation contract.Operation) string {
	var nodes []string
	for _, p := range shared.ran(operation, c.UID) {
		if p.Spec.NodeName != "" {
			nodes = append(nodes, p.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return strings.Join(slices.Compact(nodes), " ")
}

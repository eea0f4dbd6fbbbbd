//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// nodes labels two nodes, the real one and a simulated one of this test, and returns the node selector of each.
func (s *scope) nodes() (real, simulated string) {
	s.Helper()
	_, err := command(s.Context(), "test/cluster/kwok-up.sh")
	s.ok(err)
	nodes := shared.admin.CoreV1().Nodes()
	label := func(ctx context.Context, value string) error {
		patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, s.name, value)
		_, err := nodes.Patch(ctx, "node1", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	}
	s.ok(label(s.Context(), `"west"`))
	s.later(func(ctx context.Context) error { return label(ctx, "null") })
	s.later(func(ctx context.Context) error { return nodes.Delete(ctx, s.name, metav1.DeleteOptions{}) })
	s.makeNode()
	return s.name + "=west", s.name + "=east"
}

// makeNode makes the simulated node.
func (s *scope) makeNode() {
	s.Helper()
	nodes := shared.admin.CoreV1().Nodes()
	_, err := nodes.Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{
			"type": "kwok", "kubernetes.io/hostname": s.name, "kubernetes.io/os": "linux", s.name: "east"}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "flex-provisioner.io/simulated", Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.wait(soon, "simulated node ready", func() string {
		node, err := nodes.Get(s.Context(), s.name, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return "node is not ready"
	})
}

// loseNode takes the simulated node away.
func (s *scope) loseNode() {
	s.Helper()
	s.ok(shared.admin.CoreV1().Nodes().Delete(s.Context(), s.name, metav1.DeleteOptions{}))
}

// seen is what a script left in a file of $home/seen, empty if it left none.
func (c *class) seen(name string) string {
	c.s.Helper()
	text, err := os.ReadFile(c.dir() + "/seen/" + name)
	if os.IsNotExist(err) {
		return ""
	}
	c.s.ok(err)
	return strings.TrimSpace(string(text))
}

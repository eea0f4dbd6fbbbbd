//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeLeftOut: a pod likes node2, where its claim's provisioner has no room. The scheduler selects another node, since the dispatcher
// tells it that node2 has no capacity. That takes a provisioner name that a CSIDriver can have.
func nodeLeftOut(s *scope) {
	s.anotherDispatcher("refusing", "refusing.example.com")
	_, err := kubectl(s.Context(), "patch", "-n", "refusing-system", "configmap", "flex-pv-policy", "--type=merge", "-p",
		`{"data": {"refusing.storageClasses": "e2e-refusing", "refusing.volumeTypes": "local", "refusing.pathPrefixes": "/var"}}`)
	s.ok(err)
	s.apply("test/e2e/testdata/refusing.yaml")

	data := newClaim(s.name, "data", "e2e-refusing", "64Mi")
	data.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	made, err := shared.admin.CoreV1().PersistentVolumeClaims(s.name).Create(s.Context(), data, metav1.CreateOptions{})
	s.ok(err)
	c := &claim{PersistentVolumeClaim: made, s: s}
	pod := c.consumerOf(shared.admin, "sleep 1000", onSpare(""), func(p *corev1.Pod) {
		likes := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"node2"}}}}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: likes}}}}
	})

	if on := s.podRuns(pod).Spec.NodeName; on != "node3" {
		s.Errorf("the pod runs on %s, want node3", on)
	}
	c.told(soon, "ProvisionerNotHere", "no room on node2 (pod *)*")
	s.ok(shared.admin.CoreV1().Pods(s.name).Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
	c.delete()
	s.wait(patient, "claim and volume gone", c.left)
}

// anotherDispatcher installs one beside the first. The ClusterRoles are the same, and stay.
func (s *scope) anotherDispatcher(name, provisioner string) {
	s.Helper()
	manifests, err := command(s.Context(), "deploy/another.sh", name, provisioner)
	s.ok(err)
	documents := strings.Split(manifests, "\n---\n")
	documents = slices.DeleteFunc(documents, func(d string) bool { return strings.Contains("\n"+d, "\nkind: ClusterRole\n") })
	file := filepath.Join(os.TempDir(), "e2e-"+name+".yaml")
	s.ok(os.WriteFile(file, []byte(strings.Join(documents, "\n---\n")), 0o600))
	s.later(func(context.Context) error { return os.Remove(file) })
	s.apply(file)

	s.wait(patient, "the dispatcher of "+name, func() string {
		d, err := shared.admin.AppsV1().Deployments(name+"-system").Get(s.Context(), "flex-provisioner", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if d.Status.ReadyReplicas == 0 {
			return "it is not ready"
		}
		return ""
	})
}

// apply applies the objects of a file, until the test ends.
func (s *scope) apply(file string) {
	s.Helper()
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-f", file)
		return err
	})
	_, err := kubectl(s.Context(), "apply", "--server-side", "-f", file)
	s.ok(err)
}

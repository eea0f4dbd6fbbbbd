//go:build e2e

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNamespaceDeleted deletes the provisioners' namespace while a pod runs. The pod's record holds the namespace, the
// claim's owner reads why there is no further attempt, and the command of docs/operations.md lets the namespace go.
func TestNamespaceDeleted(t *testing.T) {
	t.Parallel()
	s := begin(t)
	namespace := s.installOwn("trap 'exit 1' TERM; sleep 600 & wait", "--insecure-without-policies")
	s.startOwn(namespace, "--insecure-without-policies")
	claim, err := shared.admin.CoreV1().PersistentVolumeClaims(s.name).Create(t.Context(), newClaim(s.name, "data", namespace, "1Mi"), metav1.CreateOptions{})
	s.ok(err)
	pods := func() []*corev1.Pod {
		return all(shared.pods, func(p *corev1.Pod) bool { return p.Namespace == namespace })
	}
	s.wait(patient, "pod runs", func() string {
		if list := pods(); len(list) == 1 && list[0].Status.Phase == corev1.PodRunning {
			return ""
		}
		return showEvents(eventsOn(claim.UID))
	})
	s.ok(shared.admin.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	s.told(patient, claim.UID, "ProvisionerPodRefused", "*"+namespace+"*is being terminated*")
	if list := pods(); len(list) != 1 || len(list[0].Finalizers) == 0 {
		t.Errorf("the record is gone: %d pods", len(list))
	}
	s.ok(shared.admin.CoreV1().PersistentVolumeClaims(s.name).Delete(t.Context(), "data", metav1.DeleteOptions{}))
	for _, p := range pods() {
		_, err := kubectl(t.Context(), "-n", namespace, "patch", "pod", p.Name, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
		s.ok(err)
	}
	s.wait(patient, "namespace gone", func() string {
		_, err := shared.admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return ""
		}
		return "it is there"
	})
}

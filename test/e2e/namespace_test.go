//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownDispatcher starts a dispatcher beside the installed one, as a process of this machine, with a namespace of
// provisioners and a provisioner name of the test's own. Its class, named like the namespace, has a provisioner that
// never ends.
func (s *scope) ownDispatcher() (namespace string) {
	s.Helper()
	namespace = s.name + "-p"
	objects := strings.ReplaceAll(`apiVersion: v1
kind: Namespace
metadata: {name: NAME}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: NAME}
provisioner: e2e.example.com/NAME
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config, namespace: NAME, labels: {storage-class: NAME, type: provisioner-config}}
data:
  plugin-name: e2e.example.com/NAME
  image: `+shellImage+`
  service-account-name: default
  provision: "trap 'exit 1' TERM; sleep 600 & wait"
  delete: exit 0
`, "NAME", namespace)
	file := filepath.Join(s.TempDir(), "objects.yaml")
	s.ok(os.WriteFile(file, []byte(objects), 0o600))
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "--wait=false", "storageclass/"+namespace, "namespace/"+namespace)
		return err
	})
	_, err := kubectl(s.Context(), "apply", "-f", file)
	s.ok(err)
	var log strings.Builder
	cmd := exec.CommandContext(s.Context(), buildProgram(s.T, "flex-provisioner"), "--kubeconfig", s.kubeconfig(), "--namespace", namespace, "--provisioner-name", "e2e.example.com/"+namespace,
		"--insecure-without-policies", "--leader-elect=false", "--http-address=127.0.0.1:0", "--pod-kube-api=https://10.96.0.1:443")
	cmd.Stdout, cmd.Stderr = &log, &log
	s.ok(cmd.Start())
	s.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.Failed() {
			s.Logf("the test's own dispatcher:\n%s", log.String())
		}
	})
	return namespace
}

// TestNamespaceDeleted deletes the provisioners' namespace while a pod runs. The pod's record holds the namespace, the
// claim's owner reads why there is no further attempt, and the command of docs/operations.md lets the namespace go.
func TestNamespaceDeleted(t *testing.T) {
	s := begin(t)
	namespace := s.ownDispatcher()
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

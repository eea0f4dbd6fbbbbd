//go:build integration

package integration

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/kubelet"
)

// played is an API server of a test's own with a dispatcher and a class. The test plays its users and kubelets.
type played struct {
	*testing.T
	own   *apiserver.Server
	admin kubernetes.Interface
}

// play starts it, with the volume binder and other controllers. Its class has the ConfigMap's further keys.
func play(t *testing.T, class *storagev1.StorageClass, data map[string]string, controllers ...string) *played {
	t.Helper()
	own, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop) // after the dispatcher has ended
	p := &played{T: t, own: own, admin: own.Client(apiserver.Admin.Token())}
	p.kubectl("apply", "-k", "deploy/base")
	p.kubectl("create", "serviceaccount", "-n", contract.ProvisionersNamespace, class.Name)
	_, err = own.StartControllers(append(controllers, "persistentvolume-binder-controller")...)
	p.ok(err)
	p.makeClass(class)
	merged := map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/x", "service-account-name": class.Name, "start-timeout": "1h"}
	maps.Copy(merged, data)
	_, err = p.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: class.Name, Labels: map[string]string{"type": "provisioner-config", "storage-class": class.Name}}, Data: merged,
	}, metav1.CreateOptions{})
	p.ok(err)
	lacks(t, runDispatcher(t, own, theFirst), "")
	return p
}

func (p *played) ok(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *played) kubectl(args ...string) {
	p.Helper()
	_, err := p.own.Kubectl(p.Context(), args...)
	p.ok(err)
}

func (p *played) makeClass(class *storagev1.StorageClass) {
	p.Helper()
	_, err := p.admin.StorageV1().StorageClasses().Create(p.Context(), class, metav1.CreateOptions{})
	p.ok(err)
}

func (p *played) ask(namespace, name, class string) *corev1.PersistentVolumeClaim {
	p.Helper()
	claim, err := p.admin.CoreV1().PersistentVolumeClaims(namespace).Create(p.Context(), newClaim(name, class), metav1.CreateOptions{})
	p.ok(err)
	return claim
}

// end ends a pod as a kubelet would whose container ended with the exit code.
func (p *played) end(pod *corev1.Pod, code int32) {
	p.Helper()
	p.ok(p.admin.CoreV1().Pods(pod.Namespace).Bind(p.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{}))
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	p.ok(kubelet.SetStatus(p.Context(), p.admin, pod, corev1.PodStatus{Phase: phase}, corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}}))
}

//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// A StorageClass is copied twenty times, as Kubernetes' own storage tests copy one, and the copies are deleted before their volumes are.
// One ConfigMap and one line of the allow-list serve them all. The test plays the kubelet and the image, whose tokens the policies judge.
func TestCopiesOfAClass(t *testing.T) {
	own, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop) // after the dispatcher has ended
	const class, namespace = "copied", contract.ProvisionersNamespace
	for _, args := range [][]string{{"apply", "-k", "deploy/base"}, {"create", "serviceaccount", "-n", namespace, class},
		{"patch", "configmap", "-n", contract.SystemNamespace, "flex-pv-policy", "--type=merge", "-p", `{"data": {"copied.storageClasses": "copied-*", "copied.volumeTypes": "nfs"}}`}} {
		if _, err := own.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := own.StartControllers("persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller"); err != nil {
		t.Fatal(err)
	}
	c := &copies{t: t, own: own, admin: own.Client(apiserver.Admin.Token())}
	original := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: contract.ProvisionerName,
		Parameters: map[string]string{contract.ParameterConfigFromClass: class, "pool": "a"}}
	c.makeClass(original)
	_, err = c.admin.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: class, Labels: map[string]string{"type": "provisioner-config", "storage-class": class}},
		Data:       map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/x", "service-account-name": class, "start-timeout": "1h"},
	}, metav1.CreateOptions{})
	c.ok(err)
	lacks(t, runDispatcher(t, own, theFirst), "")

	var claims []*corev1.PersistentVolumeClaim
	for i := range 20 {
		of := original.DeepCopy()
		of.Name = fmt.Sprintf("copied-e2e-sc%d", i)
		c.makeClass(of)
		claims = append(claims, c.ask(of.Name))
	}
	for i, claim := range claims {
		pod := c.pod(contract.Provision, claim)
		if i == 0 {
			c.refused(pod, "copied")
			c.refused(pod, "copiedware-1")
		}
		c.ok(c.makeVolume(pod, ""))
		c.end(pod)
	}
	for _, claim := range claims {
		eventually(t, func() error {
			now, err := c.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
			if err == nil && now.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("claim %s is %s", claim.Name, now.Status.Phase)
			}
			return err
		})
		c.ok(c.admin.StorageV1().StorageClasses().Delete(t.Context(), *claim.Spec.StorageClassName, metav1.DeleteOptions{}))
	}
	for _, claim := range claims {
		c.ok(c.admin.CoreV1().PersistentVolumeClaims(claim.Namespace).Delete(t.Context(), claim.Name, metav1.DeleteOptions{}))
	}
	for _, claim := range claims {
		c.end(c.pod(contract.Delete, claim))
	}
	eventually(t, func() error {
		volumes, err := c.admin.CoreV1().PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		if err == nil && len(volumes.Items) > 0 {
			return fmt.Errorf("%d volumes are left", len(volumes.Items))
		}
		return err
	})
}

// copies play all who work for the copies of a class.
type copies struct {
	t     *testing.T
	own   *apiserver.Server
	admin kubernetes.Interface
}

func (c *copies) ok(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *copies) makeClass(class *storagev1.StorageClass) {
	c.t.Helper()
	_, err := c.admin.StorageV1().StorageClasses().Create(c.t.Context(), class, metav1.CreateOptions{})
	c.ok(err)
}

func (c *copies) ask(class string) *corev1.PersistentVolumeClaim {
	c.t.Helper()
	claim, err := c.admin.CoreV1().PersistentVolumeClaims("default").Create(c.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: class},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}, metav1.CreateOptions{})
	c.ok(err)
	return claim
}

// pod waits for the claim's first pod of the operation. It works for the claim's class, and is told none of our parameters.
func (c *copies) pod(op contract.Operation, claim *corev1.PersistentVolumeClaim) (pod *corev1.Pod) {
	c.t.Helper()
	name := podspec.Name(op, string(claim.UID), 0)
	eventually(c.t, func() (err error) {
		pod, err = c.admin.CoreV1().Pods(contract.ProvisionersNamespace).Get(c.t.Context(), name, metav1.GetOptions{})
		return err
	})
	if request := pod.Annotations[contract.AnnRequest]; !strings.Contains(request, `"parameters":{"pool":"a"}`) || !strings.Contains(request, *claim.Spec.StorageClassName) {
		c.t.Errorf("pod %s was asked %s", name, request)
	}
	return pod
}

// makeVolume makes what the pod was asked for, with the pod's token, in another class where one is given.
func (c *copies) makeVolume(pod *corev1.Pod, class string) error {
	c.t.Helper()
	volume := &corev1.PersistentVolume{}
	c.ok(yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), volume))
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: "/srv/nfs/" + volume.Name}
	if class != "" {
		volume.Spec.StorageClassName = class
	}
	token := tokenAt(c.t, c.own, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	_, err := c.own.Client(token).CoreV1().PersistentVolumes().Create(c.t.Context(), volume, metav1.CreateOptions{})
	return err
}

func (c *copies) refused(pod *corev1.Pod, class string) {
	c.t.Helper()
	want := "spec.storageClassName " + class + " is not in copied.storageClasses of ConfigMap flex-system/flex-pv-policy"
	eventually(c.t, func() error { return judge(c.makeVolume(pod, class), want) })
}

// end ends a pod as a kubelet would whose container did its work.
func (c *copies) end(pod *corev1.Pod) {
	c.t.Helper()
	pods := c.admin.CoreV1().Pods(pod.Namespace)
	c.ok(pods.Bind(c.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{}))
	now, err := pods.Get(c.t.Context(), pod.Name, metav1.GetOptions{})
	c.ok(err)
	now.Status.Phase = corev1.PodSucceeded
	now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Now()}}}}
	_, err = pods.UpdateStatus(c.t.Context(), now, metav1.UpdateOptions{})
	c.ok(err)
}

//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// A StorageClass is copied twenty times, as Kubernetes' own storage tests copy one, and the copies are deleted before their volumes are.
// One ConfigMap and one line of the allow-list serve them all. The test plays the kubelet and the image, whose tokens the policies judge.
func TestCopiesOfAClass(t *testing.T) {
	original := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "copied"}, Provisioner: contract.ProvisionerName,
		Parameters: map[string]string{contract.ParameterConfigFromClass: "copied", "pool": "a"}}
	c := copies{play(t, original, nil, "persistentvolumeclaim-protection-controller", "persistentvolume-protection-controller")}
	c.kubectl("patch", "configmap", "-n", contract.SystemNamespace, "flex-pv-policy", "--type=merge", "-p", `{"data": {"copied.storageClasses": "copied-*", "copied.volumeTypes": "nfs"}}`)

	var claims []*corev1.PersistentVolumeClaim
	for i := range 20 {
		of := original.DeepCopy()
		of.Name = fmt.Sprintf("copied-e2e-sc%d", i)
		c.makeClass(of)
		claims = append(claims, c.ask("default", of.Name, of.Name))
	}
	for i, claim := range claims {
		pod := c.pod(contract.Provision, claim)
		if i == 0 {
			c.refused(pod, "copied")
			c.refused(pod, "copiedware-1")
		}
		c.ok(c.makeVolume(pod, ""))
		c.end(pod, 0)
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
		c.end(c.pod(contract.Delete, claim), 0)
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
type copies struct{ *played }

// pod waits for the claim's first pod of the operation. It works for the claim's class, and is told none of our parameters.
func (c copies) pod(op contract.Operation, claim *corev1.PersistentVolumeClaim) (pod *corev1.Pod) {
	c.Helper()
	name := podspec.Name(op, string(claim.UID), 0)
	eventually(c, func() (err error) {
		pod, err = c.admin.CoreV1().Pods(contract.ProvisionersNamespace).Get(c.Context(), name, metav1.GetOptions{})
		return err
	})
	if request := pod.Annotations[contract.AnnRequest]; !strings.Contains(request, `"parameters":{"pool":"a"}`) || !strings.Contains(request, *claim.Spec.StorageClassName) {
		c.Errorf("pod %s was asked %s", name, request)
	}
	return pod
}

// makeVolume makes what the pod was asked for, with the pod's token, in another class where one is given.
func (c copies) makeVolume(pod *corev1.Pod, class string) error {
	c.Helper()
	volume := &corev1.PersistentVolume{}
	c.ok(yaml.Unmarshal([]byte(pod.Annotations[contract.AnnVolume]), volume))
	volume.Spec.NFS = &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: "/srv/nfs/" + volume.Name}
	if class != "" {
		volume.Spec.StorageClassName = class
	}
	token := tokenAt(c.T, c.own, pod.Namespace, pod.Spec.ServiceAccountName, pod)
	_, err := c.own.Client(token).CoreV1().PersistentVolumes().Create(c.Context(), volume, metav1.CreateOptions{})
	return err
}

func (c copies) refused(pod *corev1.Pod, class string) {
	c.Helper()
	want := "spec.storageClassName " + class + " is not in copied.storageClasses of ConfigMap flex-system/flex-pv-policy"
	eventually(c, func() error { return judge(c.makeVolume(pod, class), want) })
}

//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// A volume that a provisioner pod created is bound by Kubernetes' own controller, and the controllers can do in
// flex-provisioners what every namespace needs.
func TestVolumeBinds(t *testing.T) {
	stop, err := server.StartControllers("persistentvolume-binder-controller", "root-ca-certificate-publisher-controller")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop) // other tests write claims that nobody else may write
	made := create(t, toms(t), nil)
	eventually(t, func() error { return checkHandedOver(t, made.Name) })
	pod := provisionerPod(t, "prov-"+string(made.UID)+"-0", "foo")
	holder := server.Client(token(t, contract.ProvisionersNamespace, "foo", pod))
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{
			Name:        "pvc-" + string(made.UID),
			Annotations: map[string]string{contract.ProvisionedBy: contract.ProvisionerName, contract.AnnClaimUID: string(made.UID)},
			Finalizers:  []string{contract.VolumeFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList(made.Spec.Resources.Requests), AccessModes: made.Spec.AccessModes,
			StorageClassName: "silver", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef: &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: made.Namespace, Name: made.Name, UID: made.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				NFS: &corev1.NFSVolumeSource{Server: "10.99.0.1", Path: "/srv/nfs/pvc-" + string(made.UID)}},
		},
	}
	eventually(t, func() error {
		_, err := holder.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{})
		return err
	})
	eventually(t, func() error { return checkBound(t, made.Name, volume.Name) })
	eventually(t, func() error {
		_, err := server.Client(apiserver.Admin.Token()).CoreV1().ConfigMaps(contract.ProvisionersNamespace).Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
	if err := holder.CoreV1().PersistentVolumes().Delete(t.Context(), volume.Name, metav1.DeleteOptions{}); err == nil || !strings.Contains(err.Error(), " cannot delete ") {
		t.Errorf("provisioner pod deletes its volume: %v, want a refusal by RBAC", err)
	}
}

func checkBound(t *testing.T, claim, volume string) error {
	t.Helper()
	got, err := toms(t).Get(t.Context(), claim, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case got.Status.Phase != corev1.ClaimBound || got.Spec.VolumeName != volume:
		return fmt.Errorf("claim %s is %s with volume %q, want Bound with %s", claim, got.Status.Phase, got.Spec.VolumeName, volume)
	}
	return nil
}

// checkHandedOver looks for what tells the dispatcher that the claim is its own.
func checkHandedOver(t *testing.T, claim string) error {
	t.Helper()
	got, err := toms(t).Get(t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if name := got.Annotations["volume.kubernetes.io/storage-provisioner"]; name != contract.ProvisionerName {
		return fmt.Errorf("claim %s is for provisioner %q, want %s", claim, name, contract.ProvisionerName)
	}
	return nil
}

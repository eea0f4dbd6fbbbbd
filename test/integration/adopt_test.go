//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// TestAdoption: a real API server and the admission policies take what adopting a volume writes, from an administrator, and give back
// what was there. A version that is old is refused.
func TestAdoption(t *testing.T) {
	admin := server.Client(apiserver.Admin.Token())
	ctx, class, theirs := t.Context(), "adopt-ours", "adopt-theirs"
	claim, err := admin.CoreV1().PersistentVolumeClaims("default").Create(ctx, newClaim("adopt", theirs), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volumes := admin.CoreV1().PersistentVolumes()
	v, err := volumes.Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName(string(claim.UID)), Annotations: map[string]string{contract.ProvisionedBy: "rancher.io/local-path"}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: theirs, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/srv/x"}},
			ClaimRef:                      &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: "default", Name: claim.Name, UID: claim.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim.Spec.VolumeName, claim.Status.Phase, v.Status.Phase = v.Name, corev1.ClaimBound, corev1.VolumeBound // as the binder would
	o := &inspect.Objects{Now: time.Now(), Claims: []*corev1.PersistentVolumeClaim{claim}, Volumes: []*corev1.PersistentVolume{v},
		Classes: []*storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: contract.ProvisionerName}},
		ConfigMaps: []*corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: class, Labels: map[string]string{"storage-class": class, "type": "provisioner-config"}},
			Data: map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/x", "service-account-name": "adopt", "expandable": "true", "run-as-user": "0"}}},
		AllowList: &corev1.ConfigMap{Data: map[string]string{"adopt.storageClasses": class, "adopt.volumeTypes": "nfs"}}}
	o.Dispatcher.Provisioner, o.Dispatcher.Namespace = contract.ProvisionerName, contract.ProvisionersNamespace
	o.Dispatcher.Cluster = podspec.Cluster{Namespace: contract.ProvisionersNamespace, KubeAPI: "https://10.96.0.1"}
	a, err := o.AdoptionOf(v.Name, class)
	if err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: contract.ProvisionersNamespace, Name: "adopt"}}
	if _, err := admin.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().ConfigMaps(contract.SystemNamespace).Patch(ctx, "flex-pv-policy", types.MergePatchType, []byte(`{"data": {"adopt.privileges": "root"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := admin.CoreV1().Pods(contract.ProvisionersNamespace).Create(ctx, a.Pod, dryRun)
		return err
	})
	tom := server.Client(users[0].Token())
	if _, err := tom.CoreV1().Pods(contract.ProvisionersNamespace).Create(ctx, a.Pod, dryRun); !apierrors.IsForbidden(err) {
		t.Errorf("tom may make the pod: %v", err)
	}
	shown := func(v *corev1.PersistentVolume) string {
		text, err := json.Marshal(v.Spec)
		return fmt.Sprint(v.Annotations, v.Finalizers, string(text), err)
	}
	before := shown(v)
	adopted, err := volumes.Patch(ctx, v.Name, types.MergePatchType, a.Patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if adopted.Spec.StorageClassName != class || adopted.Annotations[contract.ProvisionedBy] != contract.ProvisionerName || len(adopted.Finalizers) != len(v.Finalizers)+1 {
		t.Errorf("adopted, it is %s", shown(adopted))
	}
	if _, err := volumes.Patch(ctx, v.Name, types.MergePatchType, a.Patch, metav1.PatchOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an old version: %v", err)
	}
	adopted.Status.Phase = corev1.VolumeBound
	back := inspect.Objects{Now: o.Now, Claims: o.Claims, Volumes: []*corev1.PersistentVolume{adopted}, Classes: o.Classes, ConfigMaps: o.ConfigMaps, Dispatcher: o.Dispatcher}
	_, patch, err := back.Reversal(v.Name)
	if err != nil {
		t.Fatal(err)
	}
	now, err := volumes.Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after := shown(now); after != before {
		t.Errorf("given back, it is\n%s\nand was\n%s", after, before)
	}
}

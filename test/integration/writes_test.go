//go:build integration

package integration

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// The policies let the dispatcher write all that it writes to claims and volumes, in the order of a claim's life.
func TestWritesAreAccepted(t *testing.T) {
	awaitPolicies(t, suite(t))
	admin, ctx := server.Client(apiserver.Admin.Token()).CoreV1(), t.Context()
	w := writer.Writer{Client: server.Client(dispatcherToken(t))}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	claim := newClaim("written", "none")
	claim.Annotations = map[string]string{
		"volume.kubernetes.io/storage-provisioner": contract.ProvisionerName, observed.AnnSelectedNode: "node1"}
	claim, err := admin.PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	ok(err)
	t.Cleanup(func() { forget(t, "persistentvolumeclaims", "default", claim.Name) })
	volume := newVolume(claim)
	volume, err = admin.PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	ok(err)
	t.Cleanup(func() { forget(t, "persistentvolumes", "", volume.Name) })
	now := func() {
		t.Helper()
		claim, err = admin.PersistentVolumeClaims("default").Get(ctx, claim.Name, metav1.GetOptions{})
		ok(err)
		volume, err = admin.PersistentVolumes().Get(ctx, volume.Name, metav1.GetOptions{})
		ok(err)
	}

	ok(w.SetWaitingCondition(ctx, claim, "ProvisionerFailed", "x", metav1.Now()))
	now()
	ok(w.Reschedule(ctx, claim))
	record := volume.DeepCopy()
	record.Annotations = map[string]string{contract.ProvisionedBy: contract.ProvisionerName}
	key := podspec.RecordKey(make([]byte, podspec.MinRecordKey))
	policy := corev1.PersistentVolumeReclaimDelete
	signed := map[string]string{contract.AnnRecord: key.Sign(record)}
	ok(w.RepairVolume(ctx, volume, podspec.RepairOf(volume, &policy, contract.ProvisionerName, signed, "west").Patch))
	ok(w.SetCloneOf(ctx, claim, "default/source"))
	now()
	claim.Spec.VolumeName = volume.Name
	claim, err = admin.PersistentVolumeClaims("default").Update(ctx, claim, metav1.UpdateOptions{})
	ok(err)
	claim.Status.Phase = corev1.ClaimBound
	claim, err = admin.PersistentVolumeClaims("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	ok(err)

	target := resource.MustParse("2Gi")
	claim, err = w.SetResizeStatus(ctx, claim, resize.InProgress(claim, target), metav1.Now())
	ok(err)
	claim, err = w.SetResizeStatus(ctx, claim, resize.Failing(claim, target, true, "x"), metav1.Now())
	ok(err)
	ok(w.SetCapacity(ctx, volume, target))
	claim, err = w.SetResizeStatus(ctx, claim, resize.Finished(claim, target), metav1.Now())
	ok(err)
	ok(w.SetWaitingCondition(ctx, claim, "", "", metav1.Now()))

	now()
	ok(w.DeleteVolume(ctx, volume))
	now()
	if volume.DeletionTimestamp == nil || len(volume.Finalizers) != 1 {
		t.Errorf("deleted, the volume has finalizers %v and is deleted at %v", volume.Finalizers, volume.DeletionTimestamp)
	}
}

// A retained volume that has lost all annotations loses the finalizer once somebody deletes it, and not before.
func TestRetainedVolumeLosesItsFinalizer(t *testing.T) {
	awaitPolicies(t, suite(t))
	admin := server.Client(apiserver.Admin.Token()).CoreV1().PersistentVolumes()
	w := writer.Writer{Client: server.Client(dispatcherToken(t))}
	volume := newVolume(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "gone", UID: "24242424-2424-4424-8424-242424242424"}})
	volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	volume.Finalizers = []string{contract.VolumeFinalizer}
	volume, err := admin.Create(t.Context(), volume, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { forget(t, "persistentvolumes", "", volume.Name) })
	const refused = "the dispatcher may change and delete volumes of provisioner flex-provisioner.io/dispatcher only"
	if err := judge(w.SetFinalizer(t.Context(), volume, false), refused); err != nil {
		t.Error(err)
	}
	if err := admin.Delete(t.Context(), volume.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if volume, err = admin.Get(t.Context(), volume.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.SetFinalizer(t.Context(), volume, false); err != nil {
		t.Error(err)
	}
}

// newVolume is a volume as a provisioner pod may make it for the claim that forgets all annotations.
func newVolume(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: podspec.VolumeName(string(claim.UID))}}
	v.Spec = corev1.PersistentVolumeSpec{StorageClassName: "none", PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		ClaimRef: &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1",
			Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}}
	v.Spec.NFS = &corev1.NFSVolumeSource{Server: "10.0.0.1", Path: "/x"}
	return v
}

// forget removes an object with its finalizers. It may be gone.
func forget(t *testing.T, kind, namespace, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	core := server.Client(apiserver.Admin.Token()).CoreV1().RESTClient()
	request := func(r *rest.Request) *rest.Request {
		return r.NamespaceIfScoped(namespace, namespace != "").Resource(kind).Name(name)
	}
	_ = request(core.Delete()).Do(ctx).Error()
	_ = request(core.Patch(types.MergePatchType)).Body([]byte(`{"metadata":{"finalizers":null}}`)).Do(ctx).Error()
}

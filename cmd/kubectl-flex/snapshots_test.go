package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshotfake "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const snapshotUID = "77777777-2222-4333-8444-555555555555"

// nightly is a VolumeSnapshot of the claim, which is bound.
func (w *world) nightly() *snapshotv1.VolumeSnapshot {
	w.bound()
	class := "flex"
	r := &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "nightly", UID: snapshotUID, Finalizers: []string{contract.SnapshotFinalizer},
			CreationTimestamp: metav1.NewTime(noon.Add(-5 * time.Minute))},
		Spec: snapshotv1.VolumeSnapshotSpec{VolumeSnapshotClassName: &class,
			Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &w.claim.Name}},
	}
	w.snapshots = append(w.snapshots, r, &snapshotv1.VolumeSnapshotClass{ObjectMeta: metav1.ObjectMeta{Name: class},
		Driver: contract.SnapshotDriver(contract.ProvisionerName), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete})
	return r
}

// snapshotScenes are those of reasons that only snapshots have.
func snapshotScenes(w *world, reason podspec.Reason) string {
	switch reason {
	case events.ReasonSnapshotWaits:
		w.nightly().Finalizers = nil
	case events.ReasonSnapshotRefused:
		w.nightly()
	case events.ReasonSnapshotTaken:
		r := w.nightly()
		w.tell("VolumeSnapshot", r.Name, r.UID, false, reason, "pod snap-"+snapshotUID+"-0 took snapshot snap-"+snapshotUID)
	case events.ReasonSnapshotNotReady:
		group := snapshotv1.GroupName
		w.config.Data["snapshots"] = "true"
		w.claim.Spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: "VolumeSnapshot", Name: "nightly"}
		return "data"
	default:
		return ""
	}
	return "vs/nightly"
}

// TestBundleOfContents: a content shows its volume as a volume is shown.
func TestBundleOfContents(t *testing.T) {
	v := `{"metadata":{"name":"pvc-1","annotations":{"note":"s3cret-value"}},"spec":{"csi":{"driver":"d","volumeHandle":"h","volumeAttributes":{"password":"s3cret-value"}}}}`
	content := &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{
		contract.AnnVolume: v, contract.AnnRecord: "s3cret-value", "note": "s3cret-value"}}}
	data, err := (&redactor{}).object(content)
	if err != nil {
		t.Fatal(err)
	}
	annotations := data.(map[string]any)["metadata"].(map[string]any)["annotations"].(map[string]any)
	for key, value := range annotations {
		if strings.Contains(value.(string), "s3cret-value") {
			t.Errorf("annotation %s has a secret: %s", key, value)
		}
	}
	if !strings.Contains(annotations[contract.AnnVolume].(string), `"name":"pvc-1"`) {
		t.Errorf("the volume is hidden: %s", annotations[contract.AnnVolume])
	}
}

// snapshotClient is nil for a cluster without the CustomResourceDefinitions.
func (w *world) snapshotClient() snapshotclient.Interface {
	if len(w.snapshots) == 0 {
		return nil
	}
	client := snapshotfake.NewSimpleClientset(w.snapshots...)
	for resource, list := range map[string]runtime.Object{"volumesnapshots": &snapshotv1.VolumeSnapshotList{},
		"volumesnapshotcontents": &snapshotv1.VolumeSnapshotContentList{}} {
		client.PrependReactor("list", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			return slices.Contains(w.forbids, resource), list, notAllowed(action)
		})
	}
	return client
}

// kindsOfSnapshots are those that the cluster serves.
func (w *world) kindsOfSnapshots() []*metav1.APIResourceList {
	if len(w.snapshots) == 0 {
		return nil
	}
	list := &metav1.APIResourceList{GroupVersion: snapshotv1.SchemeGroupVersion.String()}
	for _, kind := range podspec.LackingSnapshotKinds(nil) {
		if !slices.Contains(w.lacks, kind) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Kind: kind})
		}
	}
	return []*metav1.APIResourceList{list}
}

// withSnapshots has snapshots of the class silver.
func withSnapshots(w *world) { w.nightly(); w.config.Data["snapshots"] = "true" }

// oddContents are one of a VolumeSnapshot that is gone, and two by hand: without a class, and of a class that has no
// snapshots, which the VolumeSnapshot has too.
func oddContents(w *world) {
	nightly := w.nightly()
	content := func(name string, source snapshotv1.VolumeSnapshotContentSource) *snapshotv1.VolumeSnapshotContent {
		c := &snapshotv1.VolumeSnapshotContent{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon), Annotations: map[string]string{}},
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: contract.SnapshotDriver(contract.ProvisionerName), Source: source,
				DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete}}
		w.snapshots = append(w.snapshots, c)
		return c
	}
	gone := content("snapcontent-"+another, snapshotv1.VolumeSnapshotContentSource{VolumeHandle: new("pvc-" + uid)})
	gone.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: "team-a", Name: "monday", UID: another}
	gone.Annotations = map[string]string{contract.AnnRecord: strings.Repeat("0a", 32), contract.AnnBeingCreated: "yes",
		contract.AnnVolume: `{"metadata":{"name":"pvc-` + uid + `"},"spec":{"storageClassName":"silver"}}`}
	content("old", snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("vol-1")})
	tin := content("tin", snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: new("vol-1")})
	tin.Annotations[contract.AnnClass] = "tin"
	tin.Spec.VolumeSnapshotRef = corev1.ObjectReference{Namespace: "team-a", Name: nightly.Name, UID: nightly.UID}
}

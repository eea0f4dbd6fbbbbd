package main

import (
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	snapshotfake "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	return snapshotfake.NewSimpleClientset(w.snapshots...)
}

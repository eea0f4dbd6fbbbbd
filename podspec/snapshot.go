package podspec

import (
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// snapshotKinds are all that the dispatcher needs.
var snapshotKinds = []string{"VolumeSnapshot", "VolumeSnapshotContent", "VolumeSnapshotClass"}

// LackingSnapshotKinds are the kinds of snapshots that are not among those of an API group's version. A nil list is of
// a group that does not exist.
func LackingSnapshotKinds(served *metav1.APIResourceList) (lacking []string) {
	kinds := map[string]bool{}
	if served != nil {
		for _, r := range served.APIResources {
			kinds[r.Kind] = true
		}
	}

	for _, kind := range snapshotKinds {
		if !kinds[kind] {
			lacking = append(lacking, kind)
		}
	}

	return lacking
}

// maxRecordedVolume is the limit in bytes on the volume in the record of a snapshot. A provisioner wrote the volume.
const maxRecordedVolume = 64 << 10

// RecordContent writes on a new VolumeSnapshotContent the volume that its snapshot is of, and signs it. So the snapshot
// is found after its volume is gone. The volume has to be one that was read from the API server. It returns an error if
// the volume is too large.
func (k RecordKey) RecordContent(content *snapshotv1.VolumeSnapshotContent, v *corev1.PersistentVolume) error {
	kept := corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: v.Name, Annotations: maps.Clone(v.Annotations)},
		Spec:       v.Spec,
	}
	for _, key := range []string{contract.AnnRecord, Verified, SourceText, corev1.LastAppliedConfigAnnotation} {
		delete(kept.Annotations, key)
	}

	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("encode volume %s for VolumeSnapshotContent %s: %w", v.Name, content.Name, err)
	}

	if len(text) > maxRecordedVolume {
		return fmt.Errorf("volume %s is %d bytes, and VolumeSnapshotContent %s keeps a copy of %d at most: remove "+
			"annotations from the volume", v.Name, len(text), content.Name, maxRecordedVolume)
	}

	if content.Annotations == nil {
		content.Annotations = map[string]string{}
	}

	content.Annotations[contract.AnnVolume] = string(text)
	content.Annotations[contract.AnnRecord] = hex.EncodeToString(k.contentSum(content))

	return nil
}

// MarkContent verifies the record of a VolumeSnapshotContent that was read from the API server, as Mark does for a
// volume.
func (k RecordKey) MarkContent(content *snapshotv1.VolumeSnapshotContent) {
	record, found := content.Annotations[contract.AnnRecord]
	if !found || record == contract.RecordTrusted {
		return
	}

	got, err := hex.DecodeString(record)
	verified := err == nil && len(k) >= MinRecordKey && hmac.Equal(got, k.contentSum(content))
	delete(content.Annotations, contract.AnnRecord)
	if verified {
		content.Annotations[Verified] = "true"
	}
}

// contentSum covers the handle, so that a record is valid for its snapshot alone, and also on another object of the
// snapshot: a backup tool makes one.
func (k RecordKey) contentSum(content *snapshotv1.VolumeSnapshotContent) []byte {
	return k.mac("flex-provisioner snapshot 1", HandleOf(content), content.Annotations[contract.AnnVolume])
}

// HandleOf is the name of a content's snapshot on the backend. One that is named as those of the dispatcher has the
// name that its VolumeSnapshot gives it. It is empty for a content that says neither.
func HandleOf(content *snapshotv1.VolumeSnapshotContent) string {
	if handle := content.Spec.Source.SnapshotHandle; handle != nil {
		return *handle
	}

	if uid, ok := SnapshotUIDOf(content.Name); ok {
		return SnapshotName(uid)
	}

	return ""
}

// ContentReady reports whether a content says that its snapshot exists.
func ContentReady(content *snapshotv1.VolumeSnapshotContent) bool {
	st := content.Status
	return st != nil && st.ReadyToUse != nil && *st.ReadyToUse && st.SnapshotHandle != nil
}

// ContentUnmade reports whether a content says that its snapshot was never seen to exist. A backup tool may bring a
// content back without its status. The mark was taken off that once the snapshot existed.
func ContentUnmade(content *snapshotv1.VolumeSnapshotContent) bool {
	marked := content.Annotations[contract.AnnBeingCreated] != ""
	byHand := content.Spec.Source.SnapshotHandle != nil

	return marked && !byHand && !ContentReady(content)
}

// ContentUntouched reports whether a content asks for a snapshot, and no dispatcher has written on it. One does before
// the first pod. The snapshot-controller makes contents so, for volumes of the type csi.
func ContentUntouched(content *snapshotv1.VolumeSnapshotContent) bool {
	_, recorded := content.Annotations[contract.AnnVolume]
	marked := content.Annotations[contract.AnnBeingCreated] != ""
	byHand := content.Spec.Source.SnapshotHandle != nil

	return !recorded && !marked && !byHand && !ContentReady(content)
}

// VolumeOf is the volume that the record of a content says, as Mark leaves it. It is nil without a record that is
// verified, or that an administrator vouches for. The content is one that was marked.
func VolumeOf(content *snapshotv1.VolumeSnapshotContent) *corev1.PersistentVolume {
	verified := content.Annotations[Verified] != ""
	trusted := content.Annotations[contract.AnnRecord] == contract.RecordTrusted
	if !verified && !trusted {
		return nil
	}

	v := &corev1.PersistentVolume{}
	if err := json.Unmarshal([]byte(content.Annotations[contract.AnnVolume]), v); err != nil || v.Name == "" {
		return nil
	}

	if v.Annotations == nil {
		v.Annotations = map[string]string{}
	}

	delete(v.Annotations, contract.AnnRecord)
	if verified {
		v.Annotations[Verified] = "true"
	} else {
		v.Annotations[contract.AnnRecord] = contract.RecordTrusted
	}

	return v
}

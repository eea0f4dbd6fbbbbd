package observed

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Snapshot is everything that is known about one snapshot at one moment, beside what a Claim has. Each object may be
// missing. The UID is that of the VolumeSnapshot, and of a content that was made by hand that of the content.
type Snapshot struct {
	// Driver is the name of the driver that this dispatcher serves.
	Driver string
	// Unserved reports whether the objects of snapshots cannot be read yet, or any more. Then only pods are known.
	Unserved bool
	// Request is the VolumeSnapshot that asks for a snapshot, or that the content names by its UID, or nil.
	Request *snapshotv1.VolumeSnapshot
	// Class is the VolumeSnapshotClass that the request names, or nil.
	Class *snapshotv1.VolumeSnapshotClass
	// Content is the VolumeSnapshotContent, or nil. Its record has been marked.
	Content *snapshotv1.VolumeSnapshotContent
	// Taken is another content that has the name which that of the request needs, or nil.
	Taken *snapshotv1.VolumeSnapshotContent
	// Claim is the claim that the request names. Source is the volume, as it is now: the one that the content's record
	// names, or without a content the one that the claim names, or nil.
	Claim  *corev1.PersistentVolumeClaim
	Source *corev1.PersistentVolume
	// Twin is another content that has the same snapshot, or nil.
	Twin *snapshotv1.VolumeSnapshotContent
	// RestoredBy names, for users, a pod that restores the snapshot, empty where none does.
	RestoredBy string
}

// SnapshotListers find the objects around a snapshot by their names, nil where there is none.
type SnapshotListers struct {
	Request func(namespace, name string) *snapshotv1.VolumeSnapshot
	Content func(name string) *snapshotv1.VolumeSnapshotContent
	Class   func(name string) *snapshotv1.VolumeSnapshotClass
	Claim   func(namespace, name string) *corev1.PersistentVolumeClaim
	Volume  func(name string) *corev1.PersistentVolume
}

// SetObjects finds the objects that the VolumeSnapshot names, and for a content its VolumeSnapshot.
func (of *Snapshot) SetObjects(l SnapshotListers) {
	if of.Content != nil && of.Request == nil {
		ref := of.Content.Spec.VolumeSnapshotRef
		if o := l.Request(ref.Namespace, ref.Name); o != nil && o.UID == ref.UID {
			of.Request = o
		}
	}

	if o := of.Request; o != nil {
		of.setNamed(o, l)
	}

	if name := of.SourceName(); name != "" {
		of.Source = l.Volume(name)
	}
}

// setNamed finds what the VolumeSnapshot names.
func (of *Snapshot) setNamed(o *snapshotv1.VolumeSnapshot, l SnapshotListers) {
	if name := o.Spec.VolumeSnapshotClassName; name != nil {
		of.Class = l.Class(*name)
	}

	if of.Content == nil {
		of.Taken = l.Content(podspec.ContentName(string(o.UID)))
	}

	if name := o.Spec.Source.PersistentVolumeClaimName; name != nil {
		of.Claim = l.Claim(o.Namespace, *name)
	}
}

// SetOthers finds who else needs the snapshot of the content, among the contents that have its handle and the pods that
// restore it.
func (of *Snapshot) SetOthers(contents []*snapshotv1.VolumeSnapshotContent, restoring []*corev1.Pod) {
	of.Twin, of.RestoredBy = nil, ""
	for _, other := range contents {
		if other.UID != of.Content.UID && (of.Twin == nil || removedBefore(other, of.Twin)) {
			of.Twin = other
		}
	}

	if len(restoring) > 0 {
		of.RestoredBy = fmt.Sprintf("pod %s/%s for claim %s",
			restoring[0].Namespace, restoring[0].Name, restoring[0].Annotations[contract.AnnClaim])
	}
}

// removedBefore is the order in which contents of one snapshot are removed: one after the other, those that are being
// deleted first.
func removedBefore(a, b *snapshotv1.VolumeSnapshotContent) bool {
	if goes := a.DeletionTimestamp != nil; goes != (b.DeletionTimestamp != nil) {
		return goes
	}

	return a.UID < b.UID
}

// AfterTwin reports whether another content of the snapshot is to be removed before this one, so that no two pods work
// on the snapshot.
func (of *Snapshot) AfterTwin() bool {
	return of.Twin != nil && of.Twin.DeletionTimestamp != nil && of.Twin.UID < of.Content.UID
}

// SetSnapshot takes in the objects of a snapshot, or nil for a claim. Volume is then the one that the snapshot is of:
// as the content's record has it, and before there is a content, as it is.
func (s *Claim) SetSnapshot(of *Snapshot) {
	s.Snapshot = of
	if of == nil {
		return
	}

	s.Claim, s.Other, s.Foreign, s.Volume = nil, nil, nil, of.Source
	if of.Content != nil && !of.Unrecorded() {
		s.Volume = podspec.VolumeOf(of.Content)
	}
}

// ContentKey is the UID under which a content is served. One that the dispatcher made has that of its VolumeSnapshot in
// its name. Every other one has its own.
func ContentKey(content *snapshotv1.VolumeSnapshotContent) string {
	uid, named := podspec.SnapshotUIDOf(content.Name)
	if named && content.Spec.Source.SnapshotHandle == nil && string(content.Spec.VolumeSnapshotRef.UID) == uid {
		return uid
	}

	return string(content.UID)
}

// ClassOfContent is the StorageClass that a content's snapshot is of, empty where nobody says so who can be believed.
func ClassOfContent(content *snapshotv1.VolumeSnapshotContent) string {
	if v := podspec.VolumeOf(content); v != nil {
		return podspec.ClassOf(v)
	}

	return content.Annotations[contract.AnnClass]
}

// SourceName is the name of the volume that the snapshot is of, empty where that is not known.
func (of *Snapshot) SourceName() string {
	if of.Content != nil && !of.Unrecorded() {
		if v := podspec.VolumeOf(of.Content); v != nil {
			return v.Name
		}

		return ""
	}

	if of.Claim != nil {
		return of.Claim.Spec.VolumeName
	}

	return ""
}

// Asks reports whether the VolumeSnapshot asks this dispatcher for a new snapshot.
func (of *Snapshot) Asks() bool {
	r := of.Request
	if r == nil || r.DeletionTimestamp != nil || r.Spec.Source.PersistentVolumeClaimName == nil {
		return false
	}

	served := of.Class != nil && of.Class.Driver == of.Driver
	bound := r.Status != nil && r.Status.BoundVolumeSnapshotContentName != nil

	return served && !bound
}

// Protected reports whether the snapshot-controller has begun to look after the VolumeSnapshot. A content that comes
// before that would be left alone if somebody deletes the VolumeSnapshot.
func (of *Snapshot) Protected() bool {
	return slices.Contains(of.Request.Finalizers, contract.SnapshotFinalizer)
}

// ByHand reports whether an administrator, or a backup tool, made the content for a snapshot that exists.
func (of *Snapshot) ByHand() bool { return of.Content.Spec.Source.SnapshotHandle != nil }

// Unrecorded reports whether the content is one that the snapshot-controller made for the VolumeSnapshot, and nothing
// was written on it yet. For volumes of the type csi it does, and it may be faster than the dispatcher.
func (of *Snapshot) Unrecorded() bool {
	content, r := of.Content, of.Request
	asked := r != nil && r.DeletionTimestamp == nil && r.Spec.Source.PersistentVolumeClaimName != nil
	served := of.Class != nil && of.Class.Driver == of.Driver
	made := asked && served && content.Name == podspec.ContentName(string(r.UID))

	return made && content.DeletionTimestamp == nil && podspec.ContentUntouched(content)
}

// ContentError is what the content's status says of the last failure, empty for none.
func ContentError(content *snapshotv1.VolumeSnapshotContent) string {
	if st := content.Status; st != nil && st.Error != nil && st.Error.Message != nil {
		return *st.Error.Message
	}

	return ""
}

// Kept reports whether the content's finalizer is in place, so that the object waits for this dispatcher.
func (of *Snapshot) Kept() bool {
	return slices.Contains(of.Content.Finalizers, contract.ContentFinalizer)
}

// Retained reports whether the snapshot stays when its content is deleted.
func (of *Snapshot) Retained() bool {
	return of.Content.Spec.DeletionPolicy != snapshotv1.VolumeSnapshotContentDelete
}

// Released reports whether nobody has the snapshot any more: its VolumeSnapshot was deleted, or there was none.
func (of *Snapshot) Released() bool {
	return of.Content.Annotations[contract.AnnBeingDeleted] != "" || of.Content.Spec.VolumeSnapshotRef.UID == ""
}

// Left reports whether nobody deletes the content that was made for a VolumeSnapshot, and its snapshot: the
// VolumeSnapshot is gone, by force or while the policy was Retain. The snapshot-controller deletes no content after
// that.
func (of *Snapshot) Left() bool {
	ours := of.Content.Spec.Driver == of.Driver && !of.ByHand()
	return ours && of.Request == nil && of.Content.DeletionTimestamp == nil && !of.Retained()
}

// DueContent reports whether a content of the driver asks for work.
func DueContent(content *snapshotv1.VolumeSnapshotContent, driver string) bool {
	if content.Spec.Driver != driver {
		return false
	}

	if content.DeletionTimestamp != nil {
		return slices.Contains(content.Finalizers, contract.ContentFinalizer)
	}

	unfinished := content.Annotations[contract.AnnBeingCreated] != "" && content.Spec.Source.SnapshotHandle == nil

	return !podspec.ContentReady(content) || unfinished
}

// handlePattern is what a handle looks like. Provisioners use it as a name of files and of volumes on a backend.
var handlePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,252}$`)

// HandleFault says what is wrong with the handle of a content, empty where nothing is.
func HandleFault(content *snapshotv1.VolumeSnapshotContent) string {
	handle := podspec.HandleOf(content)
	if handlePattern.MatchString(handle) {
		return ""
	}

	return fmt.Sprintf("spec.source.snapshotHandle of VolumeSnapshotContent %s is %.64q: a handle has letters, "+
		"digits, \".\", \"_\" and \"-\", at most 253, and begins with a letter or digit; create the content "+
		"again with another", content.Name, handle)
}

// snapshotClass is the StorageClass that the snapshot's storage is of: that of the volume, or for a content without a
// record the one that its administrator names.
func (s *Claim) snapshotClass() string {
	if s.Volume != nil {
		return podspec.ClassOf(s.Volume)
	}

	if content := s.Snapshot.Content; content != nil {
		return ClassOfContent(content)
	}

	return ""
}

// VolumeToRecord is the volume as the record of a new snapshot has it: with the identity and the mounts that find its
// storage, by whatever proof the dispatcher has of them.
func (s *Claim) VolumeToRecord() (*corev1.PersistentVolume, error) {
	identity, doubt := s.VolumeIdentity()
	if doubt != "" {
		return nil, fmt.Errorf("record volume %s: %s", s.Volume.Name, doubt)
	}

	storage, doubt := s.StorageOf(contract.Snapshot, nil)
	if doubt != "" {
		return nil, fmt.Errorf("record volume %s: %s", s.Volume.Name, doubt)
	}

	kept := s.Volume.DeepCopy()
	kept.Annotations = maps.Clone(kept.Annotations)
	if kept.Annotations == nil {
		kept.Annotations = map[string]string{}
	}

	for key, value := range map[string]any{contract.AnnIdentity: identity, contract.AnnMounts: storage.Mounts} {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode %s of volume %s: %w", key, kept.Name, err)
		}

		kept.Annotations[key] = string(text)
	}

	if !podspec.Recorded(s.Volume) {
		kept.Annotations[contract.AnnConfig] = podspec.ConfigStamp(s.Config)
	}

	return kept, nil
}

// snapshotRequest asks for the snapshot to be taken or removed.
func (s *Claim) snapshotRequest() (contract.Request, error) {
	r := contract.Request{StorageClass: s.ClassName, Identity: s.Identity()}
	if s.Volume != nil {
		var err error
		r, err = s.volumeRequest()
		if err != nil {
			return r, err
		}

		r.Claim.UID, _ = podspec.ClaimUIDOf(s.Volume.Name)
	}

	ref := s.Snapshot.Content.Spec.VolumeSnapshotRef
	if r.Claim.Namespace == "" {
		r.Claim.Namespace = ref.Namespace
	}

	r.Snapshot = &contract.SnapshotRequest{Name: podspec.HandleOf(s.Snapshot.Content), Namespace: ref.Namespace,
		VolumeSnapshot: ref.Name, UID: s.UID}

	return r, nil
}

// RestoredSnapshot is the handle of the snapshot that the pod restores, empty for a pod that restores none or has
// ended.
func RestoredSnapshot(pod *corev1.Pod) string {
	if podspec.OutcomeOf(pod).Final() {
		return ""
	}

	return SourceSnapshot(pod)
}

// SourceSnapshot is the handle of the snapshot that the pod was to restore. Few pods do: the request of the others is
// not decoded.
func SourceSnapshot(pod *corev1.Pod) string {
	if !strings.Contains(pod.Annotations[contract.AnnRequest], `"source":`) {
		return ""
	}

	request, err := podspec.RequestOf(pod)
	if err != nil || request.Operation != contract.Provision || request.Source == nil {
		return ""
	}

	return request.Source.Snapshot
}

// OfSnapshot reports whether one of the pods is of a snapshot.
func (s *Claim) OfSnapshot() bool {
	return slices.ContainsFunc(s.All(), func(a Attempt) bool { return podspec.OfSnapshot(a.Op) })
}

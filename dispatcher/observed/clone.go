package observed

import (
	"fmt"
	"strings"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// CloneSource is the claim that another one asks to be a clone of, with its volume, as far as they are known. Where the
// claim asks for a snapshot, it is that with its content, and Config is the ConfigMap that serves the snapshot's class.
type CloneSource struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume

	Snapshot *snapshotv1.VolumeSnapshot
	Content  *snapshotv1.VolumeSnapshotContent
	Config   string
}

// Bound reports whether the volume is the claim's. spec.volumeName alone proves nothing, since the claim's user can
// write any name.
func (c CloneSource) Bound() bool {
	if c.Claim == nil || c.Volume == nil || c.Volume.Spec.ClaimRef == nil {
		return false
	}

	lives := c.Claim.DeletionTimestamp == nil && c.Claim.Status.Phase == corev1.ClaimBound

	return lives && c.Volume.Spec.ClaimRef.UID == c.Claim.UID
}

// SetSource finds the claim that this one asks to be a clone of, and its volume.
func (s *Claim) SetSource(
	claim func(namespace, name string) *corev1.PersistentVolumeClaim, volume func(name string) *corev1.PersistentVolume,
) {
	s.Source = CloneSource{}
	if s.Claim == nil {
		return
	}

	name, _ := CloneOf(s.Claim)
	if name == "" {
		return
	}

	s.Source.Claim = claim(s.Claim.Namespace, name)
	if s.Source.Claim != nil {
		s.Source.Volume = volume(s.Source.Claim.Spec.VolumeName)
	}
}

// SetSnapshotSource finds the snapshot that the claim asks for, and its content, whose record is marked. config is the
// ConfigMap that serves a class. It comes after SetSource.
func (s *Claim) SetSnapshotSource(snapshot func(namespace, name string) *snapshotv1.VolumeSnapshot,
	content func(name string) *snapshotv1.VolumeSnapshotContent, config func(class string) string) {
	s.Source.Snapshot, s.Source.Content, s.Source.Config = nil, nil, ""
	if s.Claim == nil {
		return
	}

	name, _ := SnapshotOf(s.Claim)
	if name == "" {
		return
	}

	s.Source.Snapshot = snapshot(s.Claim.Namespace, name)
	if s.Source.Snapshot == nil || s.Source.Snapshot.Status == nil {
		return
	}

	bound := s.Source.Snapshot.Status.BoundVolumeSnapshotContentName
	if bound == nil {
		return
	}

	s.Source.Content = content(*bound)
	if s.Source.Content == nil {
		return
	}

	if v := podspec.VolumeOf(s.Source.Content); v != nil {
		s.Source.Config, _, _ = strings.Cut(v.Annotations[contract.AnnConfig], "/")
	} else if class := s.Source.Content.Annotations[contract.AnnClass]; class != "" {
		s.Source.Config = config(class)
	}
}

// SnapshotReady reports whether the snapshot can be restored: it and its content name each other, and both live. A
// VolumeSnapshot alone proves nothing. Its user can write any name of a content.
func (c CloneSource) SnapshotReady() bool {
	if c.Snapshot == nil || c.Content == nil {
		return false
	}

	ref := c.Content.Spec.VolumeSnapshotRef
	mutual := ref.UID == c.Snapshot.UID && ref.Namespace == c.Snapshot.Namespace && ref.Name == c.Snapshot.Name
	lives := c.Snapshot.DeletionTimestamp == nil && c.Content.DeletionTimestamp == nil

	return mutual && lives && podspec.ContentReady(c.Content)
}

// snapshotOf is the volume that the snapshot to restore is of, by the record of its content. It is nil where that is
// not known, or nothing is restored.
func (c CloneSource) snapshotOf() *corev1.PersistentVolume {
	if !c.SnapshotReady() {
		return nil
	}

	return podspec.VolumeOf(c.Content)
}

// Pinned reports whether the snapshot to restore is on certain nodes, and can be copied there alone. Of a clone nobody
// knows: caches keep no node affinity of volumes.
func (s *Claim) Pinned() bool {
	return s.Config != nil && s.Config.NodeLocal && podspec.Placed(s.Source.snapshotOf())
}

// requestSource is what the request says of the clone's source, nil for an empty volume.
func (s *Claim) requestSource() *contract.Source {
	if s.Source.SnapshotReady() {
		source := &contract.Source{Namespace: s.Source.Snapshot.Namespace, Name: s.Source.Snapshot.Name,
			Snapshot: podspec.HandleOf(s.Source.Content)}
		if v := s.Source.snapshotOf(); v != nil {
			source.VolumeName = v.Name
		}

		return source
	}

	if name, _ := CloneOf(s.Claim); name == "" || !s.Source.Bound() {
		return nil
	}

	return &contract.Source{Namespace: s.Source.Claim.Namespace, Name: s.Source.Claim.Name,
		VolumeName: s.Source.Volume.Name}
}

// CloneToRecord is the claim that the new volume is a clone of, as namespace/name; empty where it is none or the claim
// says so.
func (s *Claim) CloneToRecord(provisions []Attempt) string {
	request, err := podspec.RequestOf(provisions[len(provisions)-1].Pod)
	if err != nil || request.Source == nil || request.Source.Snapshot != "" {
		return ""
	}

	of := request.Source.Namespace + "/" + request.Source.Name
	if s.Claim.Annotations[contract.AnnCloneOf] == of {
		return ""
	}

	return of
}

// CopiedVolume is the volume that the pod copies into a clone, empty for a pod that copies none or has ended.
func CopiedVolume(pod *corev1.Pod) string {
	if podspec.OutcomeOf(pod).Final() {
		return ""
	}

	return SourceVolume(pod)
}

// SourceVolume is the volume that the pod was to copy into a clone or a snapshot, empty for a pod that copies none. Few
// pods do: the request of the others is not decoded.
func SourceVolume(pod *corev1.Pod) string {
	request := pod.Annotations[contract.AnnRequest]
	if !strings.Contains(request, `"source":`) && !strings.Contains(request, `"snapshot":`) {
		return ""
	}

	r, err := podspec.RequestOf(pod)
	switch {
	case err != nil:
		return ""
	case r.Operation == contract.Snapshot:
		return r.VolumeName
	case r.Operation == contract.Provision && r.Source != nil && r.Source.Snapshot == "":
		return r.Source.VolumeName
	}

	return ""
}

// CloneOf is the name of the claim that this one asks to be a clone of, empty for none. fault says what is wrong with
// the request.
func CloneOf(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	name, fault = cloneRequest(claim)
	if fault != "" {
		return "", fault
	}

	source, fault := dataSource(claim)
	switch {
	case fault != "":
		return "", fault
	case name != "" && source != "" && name != source:
		return "", fmt.Sprintf("annotation %s asks for a clone of %s, and spec.dataSource for one of %s; remove "+
			"one of them", contract.AnnCloneRequest, name, source)
	case source != "":
		name = source
	}

	switch {
	case name == claim.Name:
		return "", "the claim asks to be a clone of itself; name another one"
	case len(name) > validation.DNS1123SubdomainMaxLength: // an index keeps the name for as long as the claim waits
		return "", fmt.Sprintf("the claim asks to be a clone of one whose name has %d characters; names have "+
			"at most %d", len(name), validation.DNS1123SubdomainMaxLength)
	}

	return name, ""
}

// cloneRequest is the claim that the annotation names, empty for none.
func cloneRequest(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	request, found := claim.Annotations[contract.AnnCloneRequest]
	if !found {
		return "", ""
	}

	namespace, name, found := strings.Cut(request, "/")
	if !found {
		namespace, name = claim.Namespace, request
	}

	switch {
	case name == "" || namespace == "" || strings.Contains(name, "/"):
		return "", fmt.Sprintf("annotation %s is %q: it must be the name of a claim in the same namespace",
			contract.AnnCloneRequest, request)
	case namespace != claim.Namespace:
		return "", fmt.Sprintf("annotation %s is %q: only claims of namespace %s can be cloned into it",
			contract.AnnCloneRequest, request, claim.Namespace)
	}

	return name, ""
}

// SnapshotOf is the name of the VolumeSnapshot that the claim asks to be restored from, empty for none. fault says what
// is wrong with the request.
func SnapshotOf(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	source := asked(claim)
	if !isSnapshot(source) {
		return "", ""
	}

	_, clones := claim.Annotations[contract.AnnCloneRequest]
	switch {
	case clones:
		return "", fmt.Sprintf("annotation %s asks for a clone, and spec.dataSource for VolumeSnapshot %s; remove one "+
			"of them", contract.AnnCloneRequest, source.Name)
	case source.Namespace != nil && *source.Namespace != claim.Namespace:
		return "", fmt.Sprintf("spec.dataSourceRef is of namespace %s: only snapshots of namespace %s can be "+
			"restored into it", *source.Namespace, claim.Namespace)
	case len(source.Name) > validation.DNS1123SubdomainMaxLength:
		return "", fmt.Sprintf("spec.dataSource is a VolumeSnapshot whose name has %d characters; names have at "+
			"most %d", len(source.Name), validation.DNS1123SubdomainMaxLength)
	}

	return source.Name, ""
}

func isSnapshot(source *corev1.TypedObjectReference) bool {
	return source != nil && source.Kind == "VolumeSnapshot" && source.APIGroup != nil &&
		*source.APIGroup == snapshotv1.GroupName
}

// asked is what the standard field names, nil for nothing. The API server keeps both spellings of it alike.
func asked(claim *corev1.PersistentVolumeClaim) *corev1.TypedObjectReference {
	if claim.Spec.DataSourceRef != nil {
		return claim.Spec.DataSourceRef
	}

	local := claim.Spec.DataSource
	if local == nil {
		return nil
	}

	return &corev1.TypedObjectReference{APIGroup: local.APIGroup, Kind: local.Kind, Name: local.Name}
}

// dataSource is the claim that the standard field names.
func dataSource(claim *corev1.PersistentVolumeClaim) (name, fault string) {
	source := asked(claim)
	switch {
	case source == nil || isSnapshot(source):
		return "", ""
	case source.Kind != "PersistentVolumeClaim" || source.APIGroup != nil && *source.APIGroup != "":
		return "", fmt.Sprintf("spec.dataSourceRef is %s %q: a new volume is empty, a clone of a "+
			"PersistentVolumeClaim, or restored from a VolumeSnapshot; remove it, or wait for a populator of its kind",
			source.Kind, source.Name)
	case source.Namespace != nil && *source.Namespace != claim.Namespace:
		return "", fmt.Sprintf("spec.dataSourceRef is of namespace %s: only claims of namespace %s can be "+
			"cloned into it", *source.Namespace, claim.Namespace)
	}

	return source.Name, ""
}

package observed

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Attachment is everything that is known about one VolumeAttachment at one moment, beside what a Claim has. The UID is
// that of AttachmentKeyOf.
type Attachment struct {
	// Driver is the name of the CSI driver whose volumes this dispatcher attaches.
	Driver string
	// Object is the VolumeAttachment, or nil. Kubernetes makes one for a volume and a node, and deletes it once the
	// node has unmounted the volume, or is lost.
	Object *storagev1.VolumeAttachment
	// Successor is the VolumeAttachment that has the name where Object is gone: of the same volume and node. It is read
	// from the API server alone.
	Successor *storagev1.VolumeAttachment
	// Volume is the one that the VolumeAttachment names, or nil. Its source is known where it was read from the API
	// server.
	Volume *corev1.PersistentVolume
	// Connector is what the node's flex-node says of the node, empty where the node has none. It is read from the API
	// server alone.
	Connector string
}

// SetAttachment takes in a VolumeAttachment, or nil for a claim.
func (s *Claim) SetAttachment(of *Attachment) {
	s.Attachment = of
	if of != nil {
		s.Claim, s.Other, s.Foreign, s.Volume = nil, nil, nil, of.Volume
	}
}

// AttachmentKeyOf is the UID under which a VolumeAttachment is served. That of a volume which no provisioner pod made
// is the VolumeAttachment's own, and no pod has it in its name.
func AttachmentKeyOf(va *storagev1.VolumeAttachment) string {
	if uid, ours := podspec.ClaimUIDOf(AttachedVolume(va)); ours {
		return contract.AttachmentKey(uid, string(va.UID))
	}

	return string(va.UID)
}

// AttachedVolume is the name of the volume that a VolumeAttachment is for, empty for one in the spec of a pod.
func AttachedVolume(va *storagev1.VolumeAttachment) string {
	if name := va.Spec.Source.PersistentVolumeName; name != nil {
		return *name
	}

	return ""
}

// AttachedTo says which nodes have the volume, or are about to.
func AttachedTo(list []*storagev1.VolumeAttachment) (nodes []string) {
	for _, va := range list {
		nodes = append(nodes, fmt.Sprintf("node %s (VolumeAttachment %s)", va.Spec.NodeName, va.Name))
	}

	return nodes
}

// Kept reports whether the finalizer is in place, without which no pod may attach the volume.
func (of *Attachment) Kept() bool {
	return slices.Contains(of.Object.Finalizers, contract.AttachmentFinalizer)
}

// DueAttachment reports whether a VolumeAttachment asks for work.
func DueAttachment(va *storagev1.VolumeAttachment) bool {
	if va.DeletionTimestamp != nil {
		return slices.Contains(va.Finalizers, contract.AttachmentFinalizer)
	}

	return !va.Status.Attached
}

// Untouched reports whether the status says of no attempt that it came to anything.
func (of *Attachment) Untouched() bool {
	st := of.Object.Status
	return !st.Attached && len(st.AttachmentMetadata) == 0
}

// Stager is the one of flex-node that is to stage the volume, empty where nobody has read it.
func (of *Attachment) Stager() string {
	if of.Volume == nil || of.Volume.Spec.CSI == nil || of.Volume.Spec.CSI.Driver != of.Driver {
		return ""
	}

	return of.Volume.Spec.CSI.VolumeAttributes[contract.AttributeStager]
}

// Since is when Kubernetes asked for what is to be done.
func (of *Attachment) Since() time.Time {
	if at := of.Object.DeletionTimestamp; at != nil {
		return at.Time
	}

	return of.Object.CreationTimestamp.Time
}

// Error is what the status says of the last failure of what is to be done, empty for none.
func (of *Attachment) Error() string {
	fault := of.Object.Status.AttachError
	if of.Object.DeletionTimestamp != nil {
		fault = of.Object.Status.DetachError
	}

	if fault == nil {
		return ""
	}

	return fault.Message
}

// OfAttachment reports whether one of the pods is of a VolumeAttachment.
func (s *Claim) OfAttachment() bool {
	return slices.ContainsFunc(s.All(), func(a Attempt) bool { return podspec.OfAttachment(a.Op) })
}

// AnyRequest is the request of one of the pods, empty where there is none.
func (s *Claim) AnyRequest() contract.Request {
	for _, a := range s.All() {
		if request, err := podspec.RequestOf(a.Pod); err == nil {
			return request
		}
	}

	return contract.Request{}
}

// AttachmentNode is the node that the volume is to reach, or to be taken away from. Where the VolumeAttachment is gone,
// its pods name it.
func (s *Claim) AttachmentNode() string {
	if va := s.Attachment.Object; va != nil {
		return va.Spec.NodeName
	}

	if r := s.AnyRequest().Attachment; r != nil {
		return r.Node
	}

	return ""
}

// attachmentRequest asks for the volume to be attached to the node, or detached from it. Without a VolumeAttachment the
// pod of an attempt says which one there was.
func (s *Claim) attachmentRequest(madeBy *corev1.Pod) (contract.Request, error) {
	r, err := s.volumeRequest()
	if err != nil {
		return r, err
	}

	r.Claim.UID, _ = podspec.ClaimUIDOf(s.Volume.Name)
	if va := s.Attachment.Object; va != nil {
		r.Attachment = &contract.AttachmentRequest{Name: va.Name, UID: string(va.UID), Node: va.Spec.NodeName,
			Connector: va.Annotations[contract.AnnConnector]}

		return r, nil
	}

	before, err := podspec.RequestOf(madeBy)
	if err != nil {
		return r, fmt.Errorf("detach volume %s: %w", s.Volume.Name, err)
	}

	r.Attachment = before.Attachment

	return r, nil
}

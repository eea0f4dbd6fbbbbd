package controller

import (
	"context"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// attachmentChanged adds a VolumeAttachment of this dispatcher's driver that asks for work. The removal of its volume
// may wait for its end.
func (c *Controller) attachmentChanged(va *storagev1.VolumeAttachment, deleted bool) {
	if va.Spec.Attacher != c.driver() {
		return
	}

	uid := observed.AttachmentKeyOf(va)
	if claimUID, ours := podspec.ClaimUIDOf(observed.AttachedVolume(va)); ours {
		c.queue.Requeue(claimUID)
	}

	if deleted || !observed.DueAttachment(va) {
		c.queue.Requeue(uid)
		return
	}

	class, namespace := "", ""
	if v := c.Cache.Volume(observed.AttachedVolume(va)); v != nil {
		class, namespace = podspec.ClassOf(v), claimNamespace(v)
	}

	c.memory.handOver(uid, func(*claimMemory) {}, func() { c.queue.Add(class, namespace, uid) })
}

// observeAttachment finds the VolumeAttachment that is served under the UID, nil for a claim.
func (c *Controller) observeAttachment(s *observed.Claim) *observed.Attachment {
	of := &observed.Attachment{Driver: c.driver(), Object: c.Cache.Attachment(s.UID)}
	if of.Object == nil && !s.OfAttachment() {
		return nil
	}

	of.Volume = c.Cache.Volume(attachedVolumeOf(s, of))

	return of
}

// attachedVolumeOf is the name of the volume that the VolumeAttachment is for, or where it is gone its pods.
func attachedVolumeOf(s *observed.Claim, of *observed.Attachment) string {
	if of.Object != nil {
		return observed.AttachedVolume(of.Object)
	}

	return s.AnyRequest().VolumeName
}

// attachmentNameOf is the name of the VolumeAttachment, or where it is gone the one that its pods had. The cache may
// not show it yet.
func attachmentNameOf(s *observed.Claim, of *observed.Attachment) string {
	if of.Object != nil {
		return of.Object.Name
	}

	if r := s.AnyRequest().Attachment; r != nil {
		return r.Name
	}

	return ""
}

// confirmAttachedTo reads whether a volume of flex-node is attached to nodes, of which the cache shows none. A leader
// whose cache is old would remove the storage beside a node that works on it.
func (c *Controller) confirmAttachedTo(ctx context.Context, s *observed.Claim) error {
	ofNode := s.Released() && s.Volume.Spec.CSI != nil && s.Volume.Spec.CSI.Driver == c.driver()
	if !ofNode || len(s.AttachedTo) > 0 {
		return nil
	}

	list, err := c.reader.Attachments(ctx, s.Volume.Name)
	s.AttachedTo = observed.AttachedTo(list)

	return err
}

// confirmAttachment replaces what was observed of a VolumeAttachment by what the API server has.
func (c *Controller) confirmAttachment(ctx context.Context, s *observed.Claim) (err error) {
	began := time.Now()
	of := s.Attachment
	if err := c.confirmAttachmentObject(ctx, s, of); err != nil {
		return err
	}

	of.Volume, err = c.reader.VolumeNamed(ctx, attachedVolumeOf(s, of))
	if err != nil {
		return err
	}

	s.SetAttachment(of)
	if err := otherClass(s, "attachment"); err != nil {
		return err
	}

	c.observeConfig(s)
	if err := c.confirmPods(ctx, s); err != nil {
		return err
	}

	if err := c.confirmPlaces(ctx, s); err != nil {
		return err
	}

	c.confirmNamespace(ctx, s.Now)
	s.Confirmed = began

	return nil
}

// confirmAttachmentObject reads the VolumeAttachment, and what its node says of itself.
func (c *Controller) confirmAttachmentObject(
	ctx context.Context, s *observed.Claim, of *observed.Attachment,
) error {
	name := attachmentNameOf(s, of)
	if name == "" {
		return nil
	}

	now, err := c.reader.Attachment(ctx, name)
	if err != nil {
		return err
	}

	of.Object, of.Successor, of.Connector = nil, now, ""
	if now != nil && observed.AttachmentKeyOf(now) == s.UID {
		of.Object, of.Successor = now, nil
	}

	attaches := of.Object != nil && now.DeletionTimestamp == nil
	if attaches {
		of.Connector, err = c.reader.Connector(ctx, now.Spec.NodeName, of.Driver)
	}

	return err
}

// changeAttachment carries out an action on a VolumeAttachment.
func (c *Controller) changeAttachment(ctx context.Context, s *observed.Claim, action reconcile.Action) (err error) {
	va := s.Attachment.Object
	switch a := action.(type) {
	case reconcile.KeepAttachment:
		err = c.writer.KeepAttachment(ctx, va, s.Attachment.Connector)
	case reconcile.SetAttached:
		err = c.writer.SetAttached(ctx, va)
	case reconcile.SetAttachmentError:
		err = c.writer.SetAttachmentError(ctx, va, a.Message, s.Now)
	case reconcile.ReleaseAttachment:
		err = c.writer.ReleaseAttachment(ctx, va)
	}

	return err
}

package controller

import (
	"context"
	"fmt"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// attachmentChanged adds a VolumeAttachment of this dispatcher's driver that asks for work. The removal of its volume may
// wait for its end.
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

	if newest, ok := observed.Last(s.All()); ok {
		if request, err := podspec.RequestOf(newest.Pod); err == nil {
			return request.VolumeName
		}
	}

	return ""
}

// attachedTo are the nodes that a volume is attached to, or is about to be.
func (c *Controller) attachedTo(s *observed.Claim) (nodes []string) {
	for _, va := range c.Cache.AttachmentsOf(s.Volume) {
		nodes = append(nodes, observed.AttachedNode(va))
	}

	return nodes
}

// confirmAttachment replaces what was observed of a VolumeAttachment by what the API server has.
func (c *Controller) confirmAttachment(ctx context.Context, s *observed.Claim) (err error) {
	began := time.Now()
	of := s.Attachment
	if va := of.Object; va != nil {
		now, err := c.reader.Attachment(ctx, va.Name)
		if err != nil {
			return err
		}

		of.Object, of.Connector = nil, ""
		if now != nil && now.UID == va.UID {
			of.Object = now
		}

		if of.Object != nil && now.DeletionTimestamp == nil {
			if of.Connector, err = c.reader.Connector(ctx, now.Spec.NodeName, of.Driver); err != nil {
				return err
			}
		}
	}

	if of.Volume, err = c.reader.VolumeNamed(ctx, attachedVolumeOf(s, of)); err != nil {
		return err
	}

	s.SetAttachment(of)
	if class := s.ClassByObjects(s.ClassName); class != s.ClassName {
		return fmt.Errorf("attachment %s is of class %q by now, and the caches show class %q", s.UID, class, s.ClassName)
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

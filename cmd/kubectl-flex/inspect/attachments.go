package inspect

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
)

// attachmentsOf are the VolumeAttachments of a volume of this dispatcher's driver.
func (o *Objects) attachmentsOf(v *corev1.PersistentVolume) []*storagev1.VolumeAttachment {
	return o.indexed().attachments[v.Name]
}

// unattached is for a volume that a node cannot reach yet, or cannot be rid of.
func unattached(o *Objects, s situation) (Cause, bool) {
	if s.Volume == nil {
		return Cause{}, false
	}

	for _, va := range o.attachmentsOf(s.Volume) {
		of := observed.Attachment{Object: va}
		if message := of.Error(); observed.DueAttachment(va) && message != "" {
			return explain(events.ReasonAttachWaits, message, true), true
		}
	}

	return Cause{}, false
}

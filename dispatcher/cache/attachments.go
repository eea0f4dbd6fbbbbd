package cache

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// attachment keeps what is read of a VolumeAttachment of this dispatcher's driver, and of others no more than that they
// are there. Provisioner pods write the metadata, of which it counts that there is some.
func (t *transformer) attachment(va *storagev1.VolumeAttachment) {
	kept := metav1.ObjectMeta{Name: va.Name, UID: va.UID, ResourceVersion: va.ResourceVersion}
	if va.Spec.Attacher != t.driver {
		*va = storagev1.VolumeAttachment{ObjectMeta: kept}
		return
	}

	kept.CreationTimestamp, kept.DeletionTimestamp = va.CreationTimestamp, va.DeletionTimestamp
	kept.Finalizers = internAll(va.Finalizers)
	kept.Annotations = clipped(va.Annotations, []string{contract.AnnConnector})

	va.ObjectMeta = kept
	va.Spec = storagev1.VolumeAttachmentSpec{Attacher: intern(va.Spec.Attacher), NodeName: intern(va.Spec.NodeName),
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: va.Spec.Source.PersistentVolumeName}}
	if len(va.Status.AttachmentMetadata) > 0 {
		va.Status.AttachmentMetadata = anyMetadata
	}

	for _, fault := range []*storagev1.VolumeError{va.Status.AttachError, va.Status.DetachError} {
		if fault != nil {
			fault.Message = podspec.Clip(fault.Message, podspec.MaxEvent)
		}
	}
}

// anyMetadata stands for what a pod wrote for the node.
var anyMetadata = map[string]string{"": ""}

// attachmentKey is the UID under which a VolumeAttachment of this dispatcher's driver is served.
func attachmentKey(obj any) string {
	va := obj.(*storagev1.VolumeAttachment)
	if va.Spec.Attacher == "" {
		return ""
	}

	return observed.AttachmentKeyOf(va)
}

func attachedVolume(obj any) string {
	return observed.AttachedVolume(obj.(*storagev1.VolumeAttachment))
}

// Attachment is the VolumeAttachment that is served under the UID, or nil.
func (c *Cache) Attachment(uid string) *storagev1.VolumeAttachment {
	return firstOf(indexed[*storagev1.VolumeAttachment](c.Attachments, byUID, uid))
}

// AttachmentsOf are the VolumeAttachments of a volume of this dispatcher's driver.
func (c *Cache) AttachmentsOf(v *corev1.PersistentVolume) []*storagev1.VolumeAttachment {
	return indexed[*storagev1.VolumeAttachment](c.Attachments, byVolume, v.Name)
}

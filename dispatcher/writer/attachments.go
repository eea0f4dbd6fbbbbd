package writer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// KeepAttachment puts the finalizer on a VolumeAttachment that is as the plan saw it, and with it what the node says of
// itself.
func (w Writer) KeepAttachment(ctx context.Context, va *storagev1.VolumeAttachment, connector string) error {
	return w.patchAttachment(ctx, va, map[string]any{
		"finalizers":  append(slices.Clone(va.Finalizers), contract.AttachmentFinalizer),
		"annotations": map[string]any{contract.AnnConnector: connector},
	}, nil)
}

// SetAttached writes into the status of a VolumeAttachment that is as the plan saw it that its node can reach the
// volume. What a pod has published for the node stays.
func (w Writer) SetAttached(ctx context.Context, va *storagev1.VolumeAttachment) error {
	return w.patchAttachment(ctx, va, map[string]any{}, map[string]any{"attached": true, "attachError": nil}, "status")
}

// SetAttachmentError writes into its status why the volume is not attached, or not detached.
func (w Writer) SetAttachmentError(
	ctx context.Context, va *storagev1.VolumeAttachment, message string, now time.Time,
) error {
	field := "attachError"
	if va.DeletionTimestamp != nil {
		field = "detachError"
	}

	fault := map[string]any{"message": message, "time": metav1.NewTime(now)}

	return w.patchAttachment(ctx, va, map[string]any{}, map[string]any{field: fault}, "status")
}

// ReleaseAttachment takes the finalizer off a VolumeAttachment that is as the plan saw it.
func (w Writer) ReleaseAttachment(ctx context.Context, va *storagev1.VolumeAttachment) error {
	rest := slices.DeleteFunc(slices.Clone(va.Finalizers), func(f string) bool {
		return f == contract.AttachmentFinalizer
	})

	return w.patchAttachment(ctx, va, map[string]any{"finalizers": rest}, nil)
}

// patchAttachment sends a merge patch. The UID keeps it from a later object of the name, and the version from one that
// has changed.
func (w Writer) patchAttachment(ctx context.Context, va *storagev1.VolumeAttachment, fields, status map[string]any,
	subresources ...string) error {
	fields["uid"], fields["resourceVersion"] = va.UID, va.ResourceVersion
	patch := metadata(fields)
	if status != nil {
		patch["status"] = status
	}

	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("encode patch of VolumeAttachment %s: %w", va.Name, err)
	}

	_, err = w.Client.StorageV1().VolumeAttachments().Patch(ctx, va.Name, types.MergePatchType, body,
		metav1.PatchOptions{}, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch VolumeAttachment %s: %w", va.Name, err)
	}

	return nil
}

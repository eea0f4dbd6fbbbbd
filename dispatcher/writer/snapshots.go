package writer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// CreateContent creates a VolumeSnapshotContent. That it exists is no error: another dispatcher may have made it.
func (w Writer) CreateContent(ctx context.Context, content *snapshotv1.VolumeSnapshotContent) error {
	_, err := w.Snapshots.SnapshotV1().VolumeSnapshotContents().Create(ctx, content, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create VolumeSnapshotContent %s: %w", content.Name, err)
	}

	return nil
}

// RecordContent writes a record on a content that is as the plan saw it. With it goes the mark by which a snapshot may
// exist in part, and the finalizer.
func (w Writer) RecordContent(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, record map[string]string,
) error {
	annotations := map[string]any{contract.AnnBeingCreated: "yes"}
	for key, value := range record {
		annotations[key] = value
	}

	finalizers := content.Finalizers
	if !slices.Contains(finalizers, contract.ContentFinalizer) {
		finalizers = append(slices.Clone(finalizers), contract.ContentFinalizer)
	}

	return w.patchContent(ctx, content, metadata(map[string]any{"annotations": annotations, "finalizers": finalizers,
		"resourceVersion": content.ResourceVersion}))
}

// SetContentReady writes into a content's status that its snapshot exists, as it was at a time. size in bytes is the
// least that a restored volume needs, 0 where that is not known.
func (w Writer) SetContentReady(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, handle string, at time.Time, size int64,
) error {
	status := map[string]any{"snapshotHandle": handle, "creationTime": at.UnixNano(), "readyToUse": true, "error": nil}
	if size > 0 {
		status["restoreSize"] = size
	}

	return w.patchContent(ctx, content, map[string]any{"status": status}, "status")
}

// SetContentError writes into the status of a content that is as the plan saw it why there is no snapshot. Another
// dispatcher may have written since that there is one.
func (w Writer) SetContentError(
	ctx context.Context, content *snapshotv1.VolumeSnapshotContent, message string, now time.Time,
) error {
	fault := map[string]any{"message": message, "time": metav1.NewTime(now)}

	fields := metadata(map[string]any{"resourceVersion": content.ResourceVersion})
	fields["status"] = map[string]any{"error": fault, "readyToUse": false}

	return w.patchContent(ctx, content, fields, "status")
}

// FinishContent takes the mark off a content by which its snapshot may exist in part.
func (w Writer) FinishContent(ctx context.Context, content *snapshotv1.VolumeSnapshotContent) error {
	return w.patchContent(ctx, content, metadata(map[string]any{
		"annotations": map[string]any{contract.AnnBeingCreated: nil},
	}))
}

// ReleaseContent takes the finalizer off a content that is as the plan saw it. An administrator may have changed its
// policy since.
func (w Writer) ReleaseContent(ctx context.Context, content *snapshotv1.VolumeSnapshotContent) error {
	rest := slices.DeleteFunc(slices.Clone(content.Finalizers), func(f string) bool {
		return f == contract.ContentFinalizer
	})

	return w.patchContent(ctx, content, metadata(map[string]any{
		"finalizers": rest, "resourceVersion": content.ResourceVersion,
	}))
}

// patchContent sends a merge patch, which is the only kind that CustomResourceDefinitions take. The UID keeps it from a
// later object of the name.
func (w Writer) patchContent(ctx context.Context, content *snapshotv1.VolumeSnapshotContent, fields map[string]any,
	subresources ...string) error {
	of, found := fields["metadata"].(map[string]any)
	if !found {
		of = map[string]any{}
		fields["metadata"] = of
	}

	of["uid"] = content.UID
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode patch of VolumeSnapshotContent %s: %w", content.Name, err)
	}

	_, err = w.Snapshots.SnapshotV1().VolumeSnapshotContents().Patch(ctx, content.Name, types.MergePatchType, body,
		metav1.PatchOptions{}, subresources...)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch VolumeSnapshotContent %s: %w", content.Name, err)
	}

	return nil
}

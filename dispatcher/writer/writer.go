package writer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Writer writes by a client. Errors name the object. An object that is gone needs no patch, so that its absence is no
// error there.
type Writer struct {
	Client kubernetes.Interface
	// Snapshots writes VolumeSnapshotContents.
	Snapshots snapshotclient.Interface
}

// patch is the one way in which an object is changed. fields are those of a merge patch or of a strategic one, as kind
// says. into takes the changed object. Nil spares decoding it, which would be a good part of what a claim costs here.
func (w Writer) patch(
	ctx context.Context, kind types.PatchType, resource string, object metav1.Object, fields map[string]any,
	into *corev1.PersistentVolumeClaim, subresources ...string,
) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode patch of %s %s: %w", resource, object.GetName(), err)
	}

	namespace := object.GetNamespace()
	answer := w.Client.CoreV1().RESTClient().Patch(kind).NamespaceIfScoped(namespace, namespace != "").
		Resource(resource).Name(object.GetName()).SubResource(subresources...).Body(body).Do(ctx)

	err = answer.Error()
	if err == nil && into != nil {
		err = answer.Into(into)
	}

	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch %s %s: %w", resource, cache.MetaObjectToName(object), err)
	}

	return nil
}

func metadata(fields map[string]any) map[string]any { return map[string]any{"metadata": fields} }

// withoutFinalizer is for a strategic merge patch that takes one finalizer off and leaves what others add or take
// meanwhile. The UID makes it fail on a later object of the same name.
func withoutFinalizer(uid types.UID, name string) map[string]any {
	return map[string]any{"uid": uid, "$deleteFromPrimitiveList/finalizers": []string{name}}
}

// unmanaged makes the API server forget who wrote which field, which spares it the comparison of all fields. It is for
// the last write to an object.
func unmanaged(fields map[string]any) map[string]any {
	fields["managedFields"] = []any{map[string]any{}}
	return fields
}

// RepairVolume gives a volume what it lacks, by the fields of podspec.Repair.
func (w Writer) RepairVolume(ctx context.Context, v *corev1.PersistentVolume, fields map[string]any) error {
	return w.patch(ctx, types.MergePatchType, "persistentvolumes", v, fields, nil)
}

// SetFinalizer puts the finalizer on a volume that is as the plan saw it, or takes it off. By then an administrator may
// have changed the reclaim policy that the plan went by.
func (w Writer) SetFinalizer(ctx context.Context, v *corev1.PersistentVolume, present bool) error {
	fields := withoutFinalizer(v.UID, contract.VolumeFinalizer)
	if present {
		fields = map[string]any{"uid": v.UID, "finalizers": []string{contract.VolumeFinalizer}}
	}

	fields["resourceVersion"] = v.ResourceVersion

	return w.patch(ctx, types.StrategicMergePatchType, "persistentvolumes", v, metadata(fields), nil)
}

// SetNodeGone writes on a volume since when its node is gone. A zero time takes that back.
func (w Writer) SetNodeGone(ctx context.Context, v *corev1.PersistentVolume, since time.Time) error {
	var value any
	if !since.IsZero() {
		value = string(v.UID) + "/" + since.UTC().Format(time.RFC3339)
	}

	return w.patch(ctx, types.MergePatchType, "persistentvolumes", v, metadata(map[string]any{
		"uid": v.UID, "annotations": map[string]any{contract.AnnNodeGone: value},
	}), nil)
}

// SetCloneOf writes on a claim which claim its volume is a clone of.
func (w Writer) SetCloneOf(ctx context.Context, claim *corev1.PersistentVolumeClaim, source string) error {
	return w.patch(ctx, types.MergePatchType, "persistentvolumeclaims", claim,
		metadata(map[string]any{"uid": claim.UID, "annotations": map[string]any{contract.AnnCloneOf: source}}), nil)
}

// SetCapacity writes the capacity that the storage has by now. The resource version keeps an old cache from taking it
// back.
func (w Writer) SetCapacity(ctx context.Context, v *corev1.PersistentVolume, size resource.Quantity) error {
	fields := metadata(map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion})
	fields["spec"] = map[string]any{"capacity": corev1.ResourceList{corev1.ResourceStorage: size}}

	return w.patch(ctx, types.MergePatchType, "persistentvolumes", v, fields, nil)
}

// SetResizeStatus writes how an expansion stands into a claim's status. It returns the claim that it leaves, and the
// claim as it was where it is gone.
func (w Writer) SetResizeStatus(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, status *resize.Status, now metav1.Time,
) (*corev1.PersistentVolumeClaim, error) {
	left := &corev1.PersistentVolumeClaim{}
	err := w.patch(ctx, types.MergePatchType, "persistentvolumeclaims", claim, status.Patch(claim, now), left, "status")
	if err != nil || left.UID == "" {
		return claim, err
	}

	return left, nil
}

// SetWaitingCondition writes into a claim's status why the claim waits, and leaves the conditions of others alone.
// Without a reason it takes that away.
func (w Writer) SetWaitingCondition(
	ctx context.Context, claim *corev1.PersistentVolumeClaim, reason, message string, now metav1.Time,
) error {
	condition := map[string]any{"type": contract.ConditionWaiting, "$patch": "delete"}
	if reason != "" {
		since := now
		if before, waiting := observed.WaitingCondition(claim); waiting {
			since = before.LastTransitionTime
		}

		condition = map[string]any{"type": contract.ConditionWaiting, "status": corev1.ConditionTrue, "reason": reason,
			"message":       message,
			"lastProbeTime": now, "lastTransitionTime": since}
	}

	fields := metadata(map[string]any{"uid": claim.UID})
	fields["status"] = map[string]any{"conditions": []any{condition}}

	return w.patch(ctx, types.StrategicMergePatchType, "persistentvolumeclaims", claim, fields, nil, "status")
}

// Reschedule asks the scheduler for another node. The resource version makes sure that it is this choice that is
// undone.
func (w Writer) Reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	fields := metadata(map[string]any{
		"resourceVersion": claim.ResourceVersion, "annotations": map[string]any{observed.AnnSelectedNode: nil},
	})

	return w.patch(ctx, types.MergePatchType, "persistentvolumeclaims", claim, fields, nil)
}

// SetStorageCapacity makes the object the only one of its class in its namespace. Its topology cannot be changed, so
// that another one replaces it. The new one comes first: without any the scheduler would find no node.
func (w Writer) SetStorageCapacity(ctx context.Context, capacity *storagev1.CSIStorageCapacity) error {
	client := w.Client.StorageV1().CSIStorageCapacities(capacity.Namespace)
	about := fmt.Sprintf("CSIStorageCapacity %s/%s of class %s",
		capacity.Namespace, capacity.Name, capacity.StorageClassName)

	_, err := client.Create(ctx, capacity, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s: %w", about, err)
	}

	all, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list CSIStorageCapacity objects beside %s: %w", about, err)
	}

	for _, other := range all.Items {
		if other.StorageClassName != capacity.StorageClassName || other.Name == capacity.Name {
			continue
		}

		err := client.Delete(ctx, other.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete CSIStorageCapacity %s/%s, which %s replaces: %w",
				other.Namespace, other.Name, about, err)
		}
	}

	return nil
}

// CreatePod sends the request once. The client would send it again a second or more after an answer of 429, when what
// was confirmed before need not be so any more.
func (w Writer) CreatePod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	created := &corev1.Pod{}
	request := w.Client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").Body(pod)

	return created, request.Do(ctx).Into(created)
}

// RetractVolume deletes a volume that keeps its finalizer, if it is still as it was when it was judged: not bound. That
// it does not exist is an error.
func (w Writer) RetractVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	asJudged := &metav1.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion}
	err := w.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: asJudged})
	if err != nil {
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}

	return nil
}

// DeleteVolume deletes a volume whose storage is gone. The library would do it too, if Delete reported success. But its
// cache lags behind its own writes, so that it deletes one volume in four twice.
func (w Writer) DeleteVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	same := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}}
	err := w.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, same)
	if apierrors.IsNotFound(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}

	fields := unmanaged(withoutFinalizer(v.UID, contract.VolumeFinalizer))

	return w.patch(ctx, types.StrategicMergePatchType, "persistentvolumes", v, metadata(fields), nil)
}

// AnnotatePod writes an annotation on a pod.
func (w Writer) AnnotatePod(ctx context.Context, pod *corev1.Pod, key, value string) error {
	return w.patch(ctx, types.StrategicMergePatchType, "pods", pod,
		metadata(map[string]any{"uid": pod.UID, "annotations": map[string]any{key: value}}), nil)
}

// RemovePodFinalizer takes the finalizer off a pod whose outcome has been acted on. last says that nothing is written
// to it after that but its deletion.
func (w Writer) RemovePodFinalizer(ctx context.Context, pod *corev1.Pod, last bool) error {
	fields := withoutFinalizer(pod.UID, contract.PodFinalizer)
	if last {
		fields = unmanaged(fields)
	}

	return w.patch(ctx, types.StrategicMergePatchType, "pods", pod, metadata(fields), nil)
}

// CreateRevision saves a version of a ConfigMap, or a pod. That it exists is no error.
func (w Writer) CreateRevision(ctx context.Context, revision *appsv1.ControllerRevision) error {
	_, err := w.Client.AppsV1().ControllerRevisions(revision.Namespace).Create(ctx, revision, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}

	return nil
}

// SetWords writes on a saved pod what was said about it.
func (w Writer) SetWords(ctx context.Context, saved *appsv1.ControllerRevision, words map[string]string) error {
	return w.patchSaved(ctx, types.MergePatchType, saved, map[string]any{"uid": saved.UID, "annotations": words})
}

func (w Writer) patchSaved(
	ctx context.Context, kind types.PatchType, saved *appsv1.ControllerRevision, fields map[string]any,
) error {
	body, err := json.Marshal(metadata(fields))
	if err != nil {
		return fmt.Errorf("encode patch of ControllerRevision %s/%s: %w", saved.Namespace, saved.Name, err)
	}

	_, err = w.Client.AppsV1().ControllerRevisions(saved.Namespace).Patch(ctx, saved.Name, kind, body,
		metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch ControllerRevision %s/%s: %w", saved.Namespace, saved.Name, err)
	}

	return nil
}

// DeleteSaved deletes a saved pod, which has the finalizer of pods. That it does not exist is no error.
func (w Writer) DeleteSaved(ctx context.Context, saved *appsv1.ControllerRevision) error {
	if slices.Contains(saved.Finalizers, contract.PodFinalizer) {
		fields := withoutFinalizer(saved.UID, contract.PodFinalizer)
		if err := w.patchSaved(ctx, types.StrategicMergePatchType, saved, fields); err != nil {
			return err
		}
	}

	return w.DeleteRevision(ctx, saved)
}

// DeleteRevision deletes a saved version of a ConfigMap. That it does not exist is no error.
func (w Writer) DeleteRevision(ctx context.Context, revision *appsv1.ControllerRevision) error {
	err := w.Client.AppsV1().ControllerRevisions(revision.Namespace).Delete(ctx, revision.Name,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &revision.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete ControllerRevision %s/%s: %w", revision.Namespace, revision.Name, err)
	}

	return nil
}

// OwnGrace stands for the grace period that the pod itself has.
const OwnGrace int64 = -1

// DeletePod deletes a pod. graceSeconds is 0 only where no container of it runs any more. That it does not exist is an
// error.
func (w Writer) DeletePod(ctx context.Context, pod *corev1.Pod, graceSeconds int64) error {
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if graceSeconds != OwnGrace {
		options.GracePeriodSeconds = &graceSeconds
	}

	if err := w.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options); err != nil {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}

	return nil
}

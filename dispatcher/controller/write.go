package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// patch is the one way in which an object is changed. metadata and other fields are of a merge patch, or of a strategic one where
// kind says so. An object that is gone needs no change. into takes the changed object; nil spares decoding it, which would be a good
// part of what a claim costs here.
func (c *Controller) patch(ctx context.Context, kind types.PatchType, resource string, object metav1.Object, fields map[string]any, into *corev1.PersistentVolumeClaim, subresources ...string) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode patch of %s %s: %w", resource, object.GetName(), err)
	}
	namespace := object.GetNamespace()
	answer := c.Client.CoreV1().RESTClient().Patch(kind).NamespaceIfScoped(namespace, namespace != "").
		Resource(resource).Name(object.GetName()).SubResource(subresources...).Body(body).Do(ctx)
	if err = answer.Error(); err == nil && into != nil {
		err = answer.Into(into)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("patch %s %s: %w", resource, nameOf(object), err)
	}
	return nil
}

func nameOf(object metav1.Object) string {
	if object.GetNamespace() == "" {
		return object.GetName()
	}
	return object.GetNamespace() + "/" + object.GetName()
}

func metadata(fields map[string]any) map[string]any { return map[string]any{"metadata": fields} }

// withoutFinalizer is for a strategic merge patch that takes one finalizer off and leaves what others add or take meanwhile. The UID
// makes it fail on a later object of the same name.
func withoutFinalizer(uid types.UID, name string) map[string]any {
	return map[string]any{"uid": uid, "$deleteFromPrimitiveList/finalizers": []string{name}}
}

// unmanaged makes the API server forget who wrote which field, which spares it the comparison of all fields. It is for the last write
// to an object.
func unmanaged(fields map[string]any) map[string]any {
	fields["managedFields"] = []any{map[string]any{}}
	return fields
}

func (c *Controller) repairVolume(ctx context.Context, v *corev1.PersistentVolume, fields map[string]any) error {
	return c.patch(ctx, types.MergePatchType, "persistentvolumes", v, fields, nil)
}

func (c *Controller) setCloneOf(ctx context.Context, claim *corev1.PersistentVolumeClaim, source string) error {
	return c.patch(ctx, types.MergePatchType, "persistentvolumeclaims", claim,
		metadata(map[string]any{"uid": claim.UID, "annotations": map[string]any{contract.AnnCloneOf: source}}), nil)
}

// setCapacity writes the capacity that the storage has by now. The resource version keeps an old cache from taking it back.
func (c *Controller) setCapacity(ctx context.Context, v *corev1.PersistentVolume, size resource.Quantity) error {
	fields := metadata(map[string]any{"uid": v.UID, "resourceVersion": v.ResourceVersion})
	fields["spec"] = map[string]any{"capacity": corev1.ResourceList{corev1.ResourceStorage: size}}
	return c.patch(ctx, types.MergePatchType, "persistentvolumes", v, fields, nil)
}

// setResizeStatus writes how an expansion stands into the claim's status. What follows goes on from the claim that it leaves.
func (c *Controller) setResizeStatus(ctx context.Context, s *snapshot.Snapshot, status *resize.Status) error {
	now := &corev1.PersistentVolumeClaim{}
	if err := c.patch(ctx, types.MergePatchType, "persistentvolumeclaims", s.Claim, status.Patch(s.Claim, metav1.NewTime(s.Now)), now, "status"); err != nil {
		return err
	}
	if now.UID != "" {
		s.Claim = now
	}
	return nil
}

// reschedule asks the scheduler for another node. The resource version makes sure that it is this choice that is undone.
func (c *Controller) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	return c.patch(ctx, types.MergePatchType, "persistentvolumeclaims", claim,
		metadata(map[string]any{"resourceVersion": claim.ResourceVersion, "annotations": map[string]any{snapshot.AnnSelectedNode: nil}}), nil)
}

// cleanUpPod ends an attempt whose outcome has been acted on. The finalizer goes first: a pod that is being deleted with its
// finalizer would look like one that somebody else deleted.
func (c *Controller) cleanUpPod(ctx context.Context, uid string, a reconcile.CleanUpPod) error {
	pod := a.Pod
	c.Recorder.PodCleanedUp(uid, pod.Name)
	if a.KeepName {
		if podspec.Handled(pod) {
			return nil
		}
		return c.patch(ctx, types.StrategicMergePatchType, "pods", pod,
			metadata(map[string]any{"uid": pod.UID, "annotations": map[string]any{contract.AnnSettled: "true"}}), nil)
	}
	if slices.Contains(pod.Finalizers, contract.PodFinalizer) {
		fields := withoutFinalizer(pod.UID, contract.PodFinalizer)
		if a.Keep == 0 {
			fields = unmanaged(fields)
		}
		if err := c.patch(ctx, types.StrategicMergePatchType, "pods", pod, metadata(fields), nil); err != nil {
			return err
		}
	}
	if pod.DeletionTimestamp != nil || a.Keep > 0 {
		return nil
	}
	return c.deletePod(ctx, pod)
}

// deletePod asks once: until the cache shows that the pod is being deleted, or gone, other looks would ask again.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod) error {
	if c.memory.deletePod(pod.UID) { // before the answer, which may come after the pod's end
		return nil
	}
	// The pod may have ended since the snapshot was taken, and its end may have been heard of, so that nothing is remembered of it. One
	// that has not arrived in the cache leads to another look.
	if cached := c.Cache.Pod(pod.Name); cached == nil || cached.UID != pod.UID {
		c.memory.podGone(pod.UID)
		return nil
	}
	options := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	if podspec.OutcomeOf(pod).Final() {
		none := int64(0) // nothing runs any more that would need time to end
		options.GracePeriodSeconds = &none
	}
	err := c.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if err != nil {
		c.memory.podGone(pod.UID)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// postPod sends the order once. The client would send it again a second or more after an answer of 429, when what was confirmed
// before need not be so any more.
func (c *Controller) postPod(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	created := &corev1.Pod{}
	return created, c.Client.CoreV1().RESTClient().Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").Body(pod).Do(ctx).Into(created)
}

// retractVolume deletes a volume that keeps its finalizer, if it is still as it was when it was judged: not bound.
func (c *Controller) retractVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID, ResourceVersion: &v.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	return nil
}

// deleteVolume deletes a volume whose storage is gone. The library would do it too, if Delete told it so. But its cache lags behind its
// own writes, so that it deletes one volume in four twice.
func (c *Controller) deleteVolume(ctx context.Context, v *corev1.PersistentVolume) error {
	err := c.Client.CoreV1().PersistentVolumes().Delete(ctx, v.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &v.UID}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete volume %s: %w", v.Name, err)
	}
	return c.patch(ctx, types.StrategicMergePatchType, "persistentvolumes", v, metadata(unmanaged(withoutFinalizer(v.UID, contract.VolumeFinalizer))), nil)
}

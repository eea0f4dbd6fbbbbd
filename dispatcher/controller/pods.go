package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// acknowledgePod ends an attempt whose outcome has been acted on. The finalizer is removed first: a pod that is deleted
// with its finalizer looks like one that somebody else deleted.
func (c *Controller) acknowledgePod(ctx context.Context, uid string, a reconcile.AcknowledgePod) error {
	if a.KeepName {
		return c.keepPodName(ctx, a) // events about it go on
	}

	pod := a.Pod
	c.Recorder.PodAcknowledged(uid, pod.Name)

	if a.Gone {
		return c.deleteSaved(ctx, a.Saved)
	}

	if slices.Contains(pod.Finalizers, contract.PodFinalizer) {
		if err := c.writer.RemovePodFinalizer(ctx, pod, a.Keep == 0); err != nil {
			return err
		}
	}

	if a.Saved != nil {
		return c.deleteSaved(ctx, a.Saved)
	}

	if pod.DeletionTimestamp != nil || a.Keep > 0 {
		return nil
	}

	grace := writer.OwnGrace
	if podspec.OutcomeOf(pod).Final() {
		grace = 0
	}

	return c.deletePod(ctx, pod, grace)
}

func (c *Controller) keepPodName(ctx context.Context, a reconcile.AcknowledgePod) error {
	if podspec.Handled(a.Pod) {
		return nil
	}

	return c.note(ctx, a.Attempt, contract.AnnSettled, "true")
}

// note writes something on an attempt's pod, or on its record.
func (c *Controller) note(ctx context.Context, a observed.Attempt, key, value string) error {
	if a.Saved != nil {
		return c.writer.SetWords(ctx, a.Saved, map[string]string{key: value})
	}

	return c.writer.AnnotatePod(ctx, a.Pod, key, value)
}

// savePod keeps the record of an ended pod in a ControllerRevision of its name, if the API server has the pod. The
// cache may show one that was let go since. Nobody would end its record.
func (c *Controller) savePod(ctx context.Context, s *observed.Claim, a reconcile.SavePod) error {
	if a.Saved != nil {
		return c.writer.SetWords(ctx, a.Saved, podspec.Words(a.Pod.Annotations))
	}

	pod, err := c.reader.Pod(ctx, a.Pod.Name)
	kept := pod != nil && pod.UID == a.Pod.UID && slices.Contains(pod.Finalizers, contract.PodFinalizer)
	if err != nil || !kept {
		return err
	}

	record, err := podspec.SavePod(a.Pod, s.Now)
	if err != nil {
		return err
	}

	if err := c.writer.CreateRevision(ctx, record); err != nil {
		return err
	}

	_, err = c.recordOf(ctx, a.Pod)

	return err
}

// recordOf is the record of a pod as the API server has it. That there is none is an error. What has its name and
// counts for nothing was restored from a backup, and is deleted: the pod itself is there.
func (c *Controller) recordOf(ctx context.Context, pod *corev1.Pod) (*appsv1.ControllerRevision, error) {
	record, err := c.reader.Saved(ctx, pod.Name)
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return nil, fmt.Errorf("ControllerRevision %s/%s, the record of the pod, does not exist",
			pod.Namespace, pod.Name)
	}

	saved := podspec.SavedPod(record)
	switch {
	case saved == nil:
		err := fmt.Errorf("ControllerRevision %s/%s is no record, and is deleted", pod.Namespace, pod.Name)
		return nil, errors.Join(err, c.writer.DeleteSaved(ctx, record))
	case saved.UID != pod.UID:
		return nil, fmt.Errorf("ControllerRevision %s/%s is the record of an earlier pod of the name",
			pod.Namespace, pod.Name)
	}

	return record, nil
}

// releasePod lets go of a pod that was saved, if the API server has its record. The cache may show one that somebody
// has deleted.
func (c *Controller) releasePod(ctx context.Context, a reconcile.ReleasePod) error {
	record, err := c.recordOf(ctx, a.Pod)
	if err != nil {
		return err
	}

	if record.UID != a.Saved.UID {
		return fmt.Errorf("ControllerRevision %s/%s was made anew", record.Namespace, record.Name)
	}

	klog.FromContext(ctx).Info("Release deleted pod, whose record stays", "pod", klog.KObj(a.Pod),
		"controllerRevision", klog.KObj(record))

	return c.writer.RemovePodFinalizer(ctx, a.Pod, true)
}

// deleteSaved deletes the record of a pod, once: see deletePod.
func (c *Controller) deleteSaved(ctx context.Context, record *appsv1.ControllerRevision) error {
	if c.memory.expectDeletion(record.UID) {
		return nil
	}

	shown := slices.ContainsFunc(c.Cache.SavedOf(claimUIDOf(record.Name)), func(r *appsv1.ControllerRevision) bool {
		return r.UID == record.UID
	})
	if !shown {
		c.memory.deletionObserved(record.UID)
	}

	err := c.writer.DeleteSaved(ctx, record)
	if err != nil {
		c.memory.deletionObserved(record.UID)
	}

	return err
}

func claimUIDOf(pod string) string {
	_, uid, _, _ := podspec.ParseName(pod)
	return uid
}

// killGrace is in seconds. With 0 the API server would not wait for the kubelet, which has to end the container.
const killGrace int64 = 1

// deletePod sends one request: until the cache shows the deletion, each reconciliation would send another one.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod, graceSeconds int64) error {
	if c.memory.expectDeletion(pod.UID) { // before the answer, which may come after the deletion
		return nil
	}

	// The pod may have been deleted since the claim was observed. Then nothing would end the expectation. A pod that
	// the cache does not show yet requeues the claim when it arrives.
	if cached := c.Cache.Pod(pod.Name); cached == nil || cached.UID != pod.UID {
		c.memory.deletionObserved(pod.UID)
		return nil
	}

	err := c.writer.DeletePod(ctx, pod, graceSeconds)
	if err != nil {
		c.memory.deletionObserved(pod.UID)
	}

	if apierrors.IsNotFound(err) {
		return nil
	}

	return err
}

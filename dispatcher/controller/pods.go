package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// cleanUpPod ends an attempt whose outcome has been acted on. The finalizer goes first: a pod that is being deleted with its
// finalizer would look like one that somebody else deleted.
func (c *Controller) cleanUpPod(ctx context.Context, uid string, a reconcile.CleanUpPod) error {
	pod := a.Pod
	c.Recorder.PodCleanedUp(uid, pod.Name)
	if a.KeepName {
		if podspec.Handled(pod) {
			return nil
		}
		return c.writer.KeepPodName(ctx, pod)
	}
	if slices.Contains(pod.Finalizers, contract.PodFinalizer) {
		if err := c.writer.ReleasePod(ctx, pod, a.Keep == 0); err != nil {
			return err
		}
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

// killGrace is in seconds. With 0 the API server would not wait for the kubelet, which has to end the container.
const killGrace int64 = 1

// deletePod asks once: until the cache shows that the pod is being deleted, or gone, other looks would ask again.
func (c *Controller) deletePod(ctx context.Context, pod *corev1.Pod, graceSeconds int64) error {
	if c.memory.deletePod(pod.UID) { // before the answer, which may come after the pod's end
		return nil
	}
	// The pod may have ended since the snapshot was taken, and its end may have been heard of, so that nothing is remembered of it. One
	// that has not arrived in the cache leads to another look.
	if cached := c.Cache.Pod(pod.Name); cached == nil || cached.UID != pod.UID {
		c.memory.podGone(pod.UID)
		return nil
	}
	err := c.writer.DeletePod(ctx, pod, graceSeconds)
	if err != nil {
		c.memory.podGone(pod.UID)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

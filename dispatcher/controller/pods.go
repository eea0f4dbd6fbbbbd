package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/writer"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// acknowledgePod ends an attempt whose outcome has been acted on. The finalizer is removed first: a pod that is deleted
// with its finalizer looks like one that somebody else deleted.
func (c *Controller) acknowledgePod(ctx context.Context, uid string, a reconcile.AcknowledgePod) error {
	pod := a.Pod
	c.Recorder.PodAcknowledged(uid, pod.Name)
	if a.KeepName {
		if podspec.Handled(pod) {
			return nil
		}

		return c.writer.KeepPodName(ctx, pod)
	}

	if slices.Contains(pod.Finalizers, contract.PodFinalizer) {
		if err := c.writer.RemovePodFinalizer(ctx, pod, a.Keep == 0); err != nil {
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

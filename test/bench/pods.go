package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
)

type bench struct {
	client kubernetes.Interface
	loud   sync.Once // of a node that was never quiet
}

// barePod makes a pod that does nothing, and is the time until it has Succeeded.
func (b *bench) barePod(ctx context.Context, podName string) (time.Duration, error) {
	pods := b.client.CoreV1().Pods(name)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + podName})
	if err != nil {
		return 0, fmt.Errorf("watch pod %s: %w", podName, err)
	}
	defer w.Stop()
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Containers: []corev1.Container{{Name: "c", Image: image, Command: []string{"/bin/true"}}}}}
	start := time.Now()
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("create pod %s: %w", podName, err)
	}
	took, err := until(ctx, w, start, func(_ watch.EventType, o runtime.Object) bool {
		return o.(*corev1.Pod).Status.Phase == corev1.PodSucceeded
	})
	if err != nil {
		return 0, fmt.Errorf("pod %s: %w", podName, err)
	}
	none := int64(0)
	return took, pods.Delete(ctx, podName, metav1.DeleteOptions{GracePeriodSeconds: &none})
}

// bound is the time from a claim's creation until it is bound.
func (b *bench) bound(ctx context.Context, claimName string) (time.Duration, error) {
	claims := b.client.CoreV1().PersistentVolumeClaims(name)
	w, err := claims.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + claimName})
	if err != nil {
		return 0, fmt.Errorf("watch claim: %w", err)
	}
	defer w.Stop()
	start := time.Now()
	if _, err := claims.Create(ctx, newClaim(claimName, name), metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("create claim: %w", err)
	}
	took, err := until(ctx, w, start, func(_ watch.EventType, o runtime.Object) bool {
		return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound
	})
	if err != nil {
		return 0, fmt.Errorf("claim %s: %w", claimName, err)
	}
	return took, nil
}

// release deletes all claims and waits until the last of their volumes is gone.
func (b *bench) release(ctx context.Context) error {
	if err := b.client.CoreV1().PersistentVolumeClaims(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete claims: %w", err)
	}
	return wait.PollUntilContextTimeout(ctx, time.Second, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		list, err := b.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("list volumes: %w", err)
		}
		return !slices.ContainsFunc(list.Items, func(v corev1.PersistentVolume) bool { return v.Spec.StorageClassName == name }), nil
	})
}

// until is the time from start to the first event that satisfies, or an error after two minutes.
func until(ctx context.Context, w watch.Interface, start time.Time, satisfied func(watch.EventType, runtime.Object) bool) (time.Duration, error) {
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for {
		select {
		case event, ok := <-w.ResultChan():
			if !ok {
				return 0, fmt.Errorf("the watch ended")
			}
			if event.Type != watch.Error && satisfied(event.Type, event.Object) {
				return time.Since(start), nil
			}
		case <-limit.C:
			return 0, fmt.Errorf("not there after two minutes")
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

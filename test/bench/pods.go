package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Containers: []corev1.Container{{Name: "c", Image: image, Command: []string{"/bin/true"}}}}}
	took, err := until(ctx, pods, pod, func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	if err != nil {
		return 0, fmt.Errorf("pod %s: %w", podName, err)
	}
	none := int64(0)
	return took, pods.Delete(ctx, podName, metav1.DeleteOptions{GracePeriodSeconds: &none})
}

// bound is the time from a claim's creation until it is bound.
func (b *bench) bound(ctx context.Context, claimName string) (time.Duration, error) {
	claims := b.client.CoreV1().PersistentVolumeClaims(name)
	took, err := until(ctx, claims, newClaim(claimName, name), func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase == corev1.ClaimBound
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

// client is that of a kind of objects in a namespace.
type client[T metav1.Object] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// until makes an object, and is the time from then to the first event that satisfies. Two minutes are enough.
func until[T metav1.Object](ctx context.Context, objects client[T], object T, satisfied func(T) bool) (time.Duration, error) {
	ctx, cancel := within(ctx, 2*time.Minute, "what was waited for")
	defer cancel()
	w, err := objects.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + object.GetName()})
	if err != nil {
		return 0, fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	start := time.Now()
	if _, err := objects.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("create: %w", err)
	}
	for event := range w.ResultChan() {
		if seen, ok := event.Object.(T); ok && satisfied(seen) {
			return time.Since(start), nil
		}
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return 0, errors.New("the watch ended")
}

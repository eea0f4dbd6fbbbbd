package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
)

var gibibyte = resource.MustParse("1Gi")

var createOptions metav1.CreateOptions

// concurrency is how many claims are created, and deleted, at a time.
const concurrency = 16

// makeClaims creates n claims of a class as fast as it can, and notes when each was there.
func makeClaims(ctx context.Context, client kubernetes.Interface, o *observer, class string, n int) error {
	claims := client.CoreV1().PersistentVolumeClaims(name)
	return inParallel(ctx, n, concurrency, func(i int) error {
		claim, err := claims.Create(ctx, newClaim(fmt.Sprintf("%s-%d", class, i), class), metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("create claim: %w", err)
		}
		o.made(claim)
		return nil
	})
}

func newClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: gibibyte}}}}
}

func deleteClaims(ctx context.Context, client kubernetes.Interface, class string, n int) error {
	claims := client.CoreV1().PersistentVolumeClaims(name)
	return inParallel(ctx, n, concurrency, func(i int) error {
		if err := claims.Delete(ctx, fmt.Sprintf("%s-%d", class, i), metav1.DeleteOptions{}); err != nil {
			return fmt.Errorf("delete claim: %w", err)
		}
		return nil
	})
}

// inParallel does n things, so many at a time, and stops at the first error.
func inParallel(ctx context.Context, n, atATime int, do func(i int) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	workqueue.ParallelizeUntil(ctx, atATime, n, func(i int) {
		if err := do(i); err != nil {
			stop(err)
		}
	})
	return context.Cause(ctx)
}

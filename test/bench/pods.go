package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

type bench struct {
	client kubernetes.Interface
	loud   sync.Once // of a node that was never quiet
}

// barePod makes a pod that does nothing, and is the time until it has Succeeded. dress adds what is to be measured.
func (b *bench) barePod(ctx context.Context, podName string, dress func(*corev1.Pod)) (time.Duration, error) {
	pods := b.client.CoreV1().Pods(name)
	w, err := pods.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + podName})
	if err != nil {
		return 0, fmt.Errorf("watch pod %s: %w", podName, err)
	}
	defer w.Stop()
	no := false
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName, Annotations: map[string]string{"request": "{}"}}, Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		Containers: []corev1.Container{{Name: "c", Image: image, Command: []string{"/bin/true"}}}}}
	if dress != nil {
		dress(pod)
	}
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

// podCourse is when each thing happened, counted from the creation of the claim.
type podCourse struct{ annotated, podCreated, bound time.Duration }

// boundOf is the time from a claim's creation until it is bound.
func (b *bench) boundOf(ctx context.Context, claimName, class string) (time.Duration, error) {
	return b.boundBy(ctx, claimName, class, func(*corev1.PersistentVolumeClaim) error { return nil })
}

// boundBy is the same where something more has to be made for the claim.
func (b *bench) boundBy(ctx context.Context, claimName, class string, more func(*corev1.PersistentVolumeClaim) error) (time.Duration, error) {
	claims := b.client.CoreV1().PersistentVolumeClaims(name)
	w, err := claims.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + claimName})
	if err != nil {
		return 0, fmt.Errorf("watch claim: %w", err)
	}
	defer w.Stop()
	start := time.Now()
	made, err := claims.Create(ctx, newClaim(claimName, class), metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("create claim: %w", err)
	}
	if err := more(made); err != nil {
		return 0, err
	}
	took, err := until(ctx, w, start, func(_ watch.EventType, o runtime.Object) bool {
		return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound
	})
	if err != nil {
		return 0, fmt.Errorf("claim %s: %w", claimName, err)
	}
	return took, nil
}

// claim follows one claim from its creation until it is bound.
func (b *bench) claim(ctx context.Context, claimName string) (podCourse, error) {
	var c podCourse
	claims := b.client.CoreV1().PersistentVolumeClaims(name)
	class := name
	claimWatch, err := claims.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + claimName})
	if err != nil {
		return c, fmt.Errorf("watch claim: %w", err)
	}
	defer claimWatch.Stop()
	podWatch, err := b.client.CoreV1().Pods(contract.ProvisionersNamespace).Watch(ctx, metav1.ListOptions{
		LabelSelector: contract.LabelOperation + "=provision," + contract.LabelClassHash + "=" + podspec.ClassHash(class)})
	if err != nil {
		return c, fmt.Errorf("watch pods: %w", err)
	}
	defer podWatch.Stop()
	start := time.Now()
	made, err := claims.Create(ctx, newClaim(claimName, class), metav1.CreateOptions{})
	if err != nil {
		return c, fmt.Errorf("create claim: %w", err)
	}
	uid := string(made.UID)
	pod := make(chan error, 1)
	go func() { // beside the claim's own course, so that neither is seen late
		var err error
		c.podCreated, err = until(ctx, podWatch, start, func(t watch.EventType, o runtime.Object) bool {
			return t == watch.Added && o.(*corev1.Pod).Labels[contract.LabelClaimUID] == uid
		})
		pod <- err
	}()
	if c.annotated, err = until(ctx, claimWatch, start, func(_ watch.EventType, o runtime.Object) bool {
		return o.(*corev1.PersistentVolumeClaim).Annotations["volume.kubernetes.io/storage-provisioner"] != ""
	}); err != nil {
		return c, fmt.Errorf("claim %s: %w", claimName, err)
	}
	if c.bound, err = until(ctx, claimWatch, start, func(_ watch.EventType, o runtime.Object) bool {
		return o.(*corev1.PersistentVolumeClaim).Status.Phase == corev1.ClaimBound
	}); err != nil {
		return c, fmt.Errorf("claim %s: %w", claimName, err)
	}
	if err := <-pod; err != nil {
		return c, fmt.Errorf("pod of claim %s: %w", claimName, err)
	}
	return c, nil
}

// release deletes all claims at once and is the time until the last of their volumes is gone.
func (b *bench) release(ctx context.Context) (time.Duration, error) {
	volumes := b.client.CoreV1().PersistentVolumes()
	list, err := volumes.List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list volumes: %w", err)
	}
	left := map[string]bool{}
	for _, v := range list.Items {
		if v.Spec.StorageClassName == name {
			left[v.Name] = true
		}
	}
	w, err := volumes.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return 0, fmt.Errorf("watch volumes: %w", err)
	}
	defer w.Stop()
	start := time.Now()
	if err := b.client.CoreV1().PersistentVolumeClaims(name).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		return 0, fmt.Errorf("delete claims: %w", err)
	}
	if len(left) == 0 {
		return 0, nil
	}
	took, err := until(ctx, w, start, func(t watch.EventType, o runtime.Object) bool {
		if t == watch.Deleted {
			delete(left, o.(*corev1.PersistentVolume).Name)
		}
		return len(left) == 0
	})
	if err != nil {
		return 0, fmt.Errorf("%d volumes: %w", len(left), err)
	}
	return took, nil
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

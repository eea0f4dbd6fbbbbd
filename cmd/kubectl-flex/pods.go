package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/podlog"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// runToEnd waits until a pod that the command created has ended, and has read called with it. Then it deletes the pod,
// also if the command is interrupted.
func runToEnd(ctx context.Context, client kubernetes.Interface, created *corev1.Pod, every, limit time.Duration,
	read func(*corev1.Pod, podspec.Outcome) error) (err error) {
	defer func() { err = errors.Join(err, deletePod(context.WithoutCancel(ctx), client, created)) }()

	pod := created
	var outcome podspec.Outcome
	err = wait.PollUntilContextTimeout(ctx, every, limit, true, func(ctx context.Context) (bool, error) {
		pod, err = client.CoreV1().Pods(created.Namespace).Get(ctx, created.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if pod.UID != created.UID {
			return false, errors.New("another pod of the name is there: somebody else does the same")
		}

		outcome = podspec.OutcomeOf(pod)
		return outcome.Final(), nil
	})
	if err != nil {
		return fmt.Errorf("wait for pod %s, %s: %w", created.Name, outcome.Message, err)
	}

	return read(pod, outcome)
}

// deletePod deletes a pod at once. One that was created has a UID, and another of its name stays.
func deletePod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if pod.UID != "" {
		options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	}

	err := client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	gone := apierrors.IsNotFound(err) || pod.UID != "" && apierrors.IsConflict(err)
	if err != nil && !gone {
		return fmt.Errorf("delete pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}

	return nil
}

// failure is why a pod failed, with the end of its log if it left no message. The pod is deleted, so nobody can read the
// log later.
func failure(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, outcome podspec.Outcome) string {
	if _, explains := podspec.LogContainer(pod, outcome); !explains {
		return outcome.Message
	}
	return outcome.Message + "; " + podlog.Says(podlog.EndOf(ctx, client, pod))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/cmd/kubectl-flex/inspect"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/podlog"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// runToEnd waits until a pod that the command created has ended, and has read called with it. Before that, look may give
// the pod up, unless it is nil. Then the pod is deleted, also if the command is interrupted.
func runToEnd(ctx context.Context, client kubernetes.Interface, created *corev1.Pod, every, limit time.Duration,
	look func(context.Context, *corev1.Pod, podspec.Outcome) error, read func(*corev1.Pod, podspec.Outcome) error) (err error) {
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
		if look != nil && !outcome.Final() {
			return false, look(ctx, pod, outcome)
		}
		return outcome.Final(), nil
	})
	if err != nil {
		who := created.Name
		if outcome.Message != "" && !strings.Contains(err.Error(), outcome.Message) {
			who += ", " + outcome.Message
		}
		return fmt.Errorf("wait for pod %s: %w", who, err)
	}

	return read(pod, outcome)
}

// watcher says what a pod waits for, and gives up one that does not start.
type watcher struct {
	client   kubernetes.Interface
	patience time.Duration
	note     func(format string, args ...any)
	began    time.Time
	// stuck is since when the pod does not start for a cause that is known. told is when what was said last.
	stuck, told time.Time
	said        string
}

// tellEach is how often the same is said again.
const tellEach = 15 * time.Second

// look is for a pod that has not ended. A missing node may come, and is waited for.
func (w *watcher) look(ctx context.Context, pod *corev1.Pod, outcome podspec.Outcome) error {
	problem := outcome.Message
	if outcome.Phase == podspec.Starting && problem == "" {
		about := metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)}
		list, err := w.client.CoreV1().Events(pod.Namespace).List(ctx, about)
		if err == nil {
			problem = inspect.StartProblem(pointers(list.Items))
		}
	}

	now := time.Now()
	switch {
	case problem == "" || outcome.Reason == podspec.ReasonUnschedulable:
		w.stuck = time.Time{}
	case w.stuck.IsZero():
		w.stuck = now
	case now.Sub(w.stuck) >= w.patience:
		return fmt.Errorf("it does not start: %s", problem)
	}

	last := w.told
	if last.IsZero() {
		last = w.began
	}
	if news := problem != "" && w.said == ""; news || now.Sub(last) >= tellEach {
		w.told, w.said = now, problem
		text := fmt.Sprintf("pod %s is %s, for %s", pod.Name, strings.ToLower(string(outcome.Phase)), now.Sub(w.began).Round(time.Second))
		if problem != "" {
			text += ": " + problem
		}
		w.note("%s", text)
	}

	return nil
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

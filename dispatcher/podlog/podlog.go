package podlog

import (
	"bytes"
	"context"
	"errors"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Limits on what is read of a log.
const (
	// Lines is the number of last lines.
	Lines = 10
	// MaxBytes is the size of these lines together.
	MaxBytes = 64 << 10
)

// ErrLost says that the kubelet no longer has the log. It does not quote the kubelet's answer, since an image can print
// the same text and more.
var ErrLost = errors.New("the kubelet does not have it any more")

// timeout bounds the request for a log. The API server passes it on to the kubelet, and waits for that without a limit.
const timeout = 10 * time.Second

// Tail returns the last lines of the log of a pod's container. Errors are to be expected, since the node may be gone.
func Tail(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, container string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	lines, size := int64(Lines), int64(MaxBytes)
	options := &corev1.PodLogOptions{Container: container, TailLines: &lines, LimitBytes: &size}
	log, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).DoRaw(ctx)
	switch {
	case err != nil:
		return "", err
	case isLost(log):
		return "", ErrLost
	}

	return string(log), nil
}

// isLost reports whether a log is the kubelet's message that the log is gone, which the kubelet sends with status 200.
// The kubelet removes the containers of an evicted pod at once.
func isLost(log []byte) bool {
	return bytes.HasPrefix(log, []byte("unable to retrieve container logs for ")) ||
		bytes.HasPrefix(log, []byte("failed to try resolving symlinks in path "))
}

// EndOf returns the End of the log of the container that failed.
func EndOf(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) (string, error) {
	container, _ := podspec.LogContainer(pod, podspec.OutcomeOf(pod))
	tail, err := Tail(ctx, client, pod, container)

	return End(tail), err
}

// End is the end of a log as one line of printable characters, of at most contract.MaxMessage bytes. The last lines
// most often say why a program failed.
func End(log string) string {
	const more = "..."
	end := podspec.OneLine(log)
	if len(end) <= contract.MaxMessage {
		return end
	}

	cut := len(end) - contract.MaxMessage + len(more)
	for !utf8.RuneStart(end[cut]) {
		cut++
	}

	return more + end[cut:]
}

// Says is the part of a message that quotes a log, from the results of EndOf.
func Says(end string, err error) string {
	switch {
	case err != nil:
		return "its log cannot be read"
	case end == "":
		return "it printed nothing"
	}

	return "its log ends with: " + end
}

package podspec_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// FuzzOutcome lets a container end with any message, code and reason. What users are shown of it is one bounded line
// without control characters.
func FuzzOutcome(f *testing.F) {
	for _, message := range []string{"", "pool gold is full", "two\nlines\x00\x1b[31m", strings.Repeat("ä", 400), "\xff\xfe", "a\u202eb\u2028c\u200d", strings.Repeat(" ", 5000)} {
		f.Add(message, int32(1), "Error", "", true)
	}

	f.Add("x", int32(64), "OOMKilled", "DeadlineExceeded", true)
	f.Add("x", int32(0), "StartError", "Evicted", false)
	f.Fuzz(func(t *testing.T, message string, code int32, reason, podReason string, failed bool) {
		deadline := int64(60)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "prov-x-0"}, Spec: corev1.PodSpec{NodeName: "n", ActiveDeadlineSeconds: &deadline}}
		status := corev1.ContainerStatus{Name: podspec.ContainerName, Image: "i"}
		if failed {
			pod.Status.Phase = corev1.PodFailed
			status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
		} else {
			status.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		}

		pod.Status.Reason, pod.Status.Message = podReason, message
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		outcome := podspec.OutcomeOf(pod)
		// The longest words around what is quoted.
		const around = len("the container's configuration is incomplete: the pod ran into its deadline of 60s, saying: ")
		if len(outcome.Message) > contract.MaxMessage+around || !utf8.ValidString(outcome.Message) {
			t.Errorf("message of %d bytes: %q", len(outcome.Message), outcome.Message)
		}

		if i := strings.IndexFunc(outcome.Message, func(r rune) bool {
			return r != ' ' && (unicode.IsSpace(r) || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp))
		}); i >= 0 {
			t.Errorf("message has a control character at %d: %q", i, outcome.Message)
		}

		if failed == (outcome.Phase == podspec.Starting) {
			t.Errorf("phase is %s", outcome.Phase)
		}
	})
}

package podlog

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// The last words of a log are those that count, whatever comes before them.
func TestEnd(t *testing.T) {
	for name, c := range map[string]struct{ log, want string }{
		"empty":                {"", ""},
		"white space":          {" \n\t\n", ""},
		"a line":               {"rm: can't remove '/export/pvc-1/d': Permission denied\n", "rm: can't remove '/export/pvc-1/d': Permission denied"},
		"lines":                {"+ rm -rf /export/pvc-1\r\nrm: no\n\n", "+ rm -rf /export/pvc-1 rm: no"},
		"control characters":   {"\x1b[2Jgone\x00\u202egnorw\x9b31m\n", "[2Jgone gnorw?31m"},
		"no text":              {"\xff\xfe\xfdno room", "?no room"},
		"as long as it may be": {strings.Repeat("x", contract.MaxMessage), strings.Repeat("x", contract.MaxMessage)},
		"long":                 {strings.Repeat("x", 70_000) + " no room", "..." + strings.Repeat("x", contract.MaxMessage-3-len(" no room")) + " no room"},
		"long, of wide characters": {strings.Repeat("ä", 5000) + " no room!",
			"..." + strings.Repeat("ä", (contract.MaxMessage-3-len(" no room!"))/2) + " no room!"},
		"only wide characters": {strings.Repeat("\U0001F600", 5000), "..." + strings.Repeat("\U0001F600", (contract.MaxMessage-3)/4)},
	} {
		got := End(c.log)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}

		if len(got) > contract.MaxMessage || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes, valid: %t", name, len(got), utf8.ValidString(got))
		}
	}
}

// TestLost: only a log that begins with the kubelet's words is gone.
func TestLost(t *testing.T) {
	for log, want := range map[string]bool{
		"unable to retrieve container logs for containerd://7d1b":                                          true,
		"failed to try resolving symlinks in path \"/var/log/pods/x/0.log\": lstat /var/log/pods: no such": true,
		"cannot reach 10.0.0.1: unable to retrieve container logs for x":                                   false,
		"": false,
	} {
		if got := isLost([]byte(log)); got != want {
			t.Errorf("lost(%q) = %t", log, got)
		}
	}
}

func TestSays(t *testing.T) {
	for want, c := range map[string]struct {
		end string
		err error
	}{
		"its log cannot be read":     {"", errors.New("no route")},
		"it printed nothing":         {"", nil},
		"its log ends with: no room": {"no room", nil},
	} {
		if got := Says(c.end, c.err); got != want {
			t.Errorf("Says(%q, %v) = %q, want %q", c.end, c.err, got, want)
		}
	}
}

// TestEndOf: of a pod whose init container failed, the log is that container's, and a log that is gone is an error
// without its words.
func TestEndOf(t *testing.T) {
	answer := ": no space left"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(strings.TrimSpace(answer + " " + r.URL.Query().Get("container"))))
	}))
	defer server.Close()

	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	pod := dispatchertest.Pod("del-0 failed", dispatchertest.Noon, dispatchertest.Noon)
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"},
	}
	pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
		{Name: "flexctl", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}},
	}
	if end, err := EndOf(t.Context(), client, pod); end != ": no space left flexctl" || err != nil {
		t.Errorf("%q, %v", end, err)
	}

	answer = "unable to retrieve container logs for containerd://7d1b"
	if end, err := EndOf(t.Context(), client, pod); end != "" || !errors.Is(err, ErrLost) {
		t.Errorf("of a log that is gone: %q, %v", end, err)
	}

	server.Close()
	if end, err := EndOf(t.Context(), client, pod); end != "" || err == nil {
		t.Errorf("without an answer: %q, %v", end, err)
	}
}

type hangs struct{}

func (hangs) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A kubelet that does not answer holds up nobody for long.
func TestTailOfSilentKubelet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://192.0.2.1", Transport: hangs{}})
		_, err := Tail(
			t.Context(),
			client,
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prov"}},
			"provisioner",
		)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != timeout {
			t.Errorf("after %s the error is %v, want %v after %s", took, err, context.DeadlineExceeded, timeout)
		}
	})
}

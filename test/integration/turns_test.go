//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// One tenant has 500 claims of a class that may have two pods at a time. Another tenant's claim waits for one pod to end, and
// for at most one more; so does its next. The test ends pods in place of a kubelet, all of them refused: a turn is a turn.
func TestTurnsOfNamespaces(t *testing.T) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Provisioner: contract.ProvisionerName}
	q := &queue{play(t, class, map[string]string{"max-concurrent": "2"}), map[types.UID]bool{}}
	q.kubectl("create", "namespace", "other")
	for i := range 500 {
		q.ask("default", fmt.Sprintf("claim-%d", i), class.Name)
	}
	for range 5 {
		q.refuse(&q.running(2)[0])
	}
	for i := range 2 {
		claim := q.ask("other", fmt.Sprintf("claim-%d", i), class.Name)
		q.told(claim)
		turns, running := 0, q.running(2)
		for ; !strings.Contains(running[0].Name+running[1].Name, string(claim.UID)); turns++ {
			q.refuse(&running[turns%2])
			running = q.running(2)
		}
		if turns > 2 {
			t.Errorf("claim number %d of another namespace waited for %d pods to end, want 2 at most", i, turns)
		}
	}
	q.toldOnce()
}

// queue is a class of two pods at a time, and its pods.
type queue struct {
	*played
	ended map[types.UID]bool
}

// running waits until so many pods have not ended, and returns them.
func (q *queue) running(want int) []corev1.Pod {
	q.Helper()
	var pods []corev1.Pod
	eventually(q, func() error {
		list, err := q.admin.CoreV1().Pods(contract.ProvisionersNamespace).List(q.Context(), metav1.ListOptions{LabelSelector: contract.LabelClaimUID})
		if err != nil {
			return err
		}
		pods = nil
		for _, pod := range list.Items {
			if !q.ended[pod.UID] {
				pods = append(pods, pod)
			}
		}
		if len(pods) != want {
			return fmt.Errorf("%d pods run, want %d", len(pods), want)
		}
		return nil
	})
	return pods
}

// refuse ends a pod whose container refused the request.
func (q *queue) refuse(pod *corev1.Pod) {
	q.Helper()
	q.end(pod, contract.ExitRefused)
	q.ended[pod.UID] = true
}

const reached = "ConcurrencyLimitReached"

// told waits until the claim says why it waits: it stands in line then.
func (q *queue) told(claim *corev1.PersistentVolumeClaim) {
	q.Helper()
	const want = "waiting for other provisioner pods of StorageClass few to end: 2 of at most 2 (max-concurrent) are running or starting; namespaces take turns, and no action is needed"
	eventually(q, func() error {
		events, err := q.admin.CoreV1().Events(claim.Namespace).List(q.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(claim.UID)})
		if err != nil {
			return err
		}
		for _, e := range events.Items {
			if e.Reason == reached && e.Message == want && e.Type == corev1.EventTypeNormal {
				return nil
			}
		}
		return fmt.Errorf("no event %s in %v", reached, events.Items)
	})
}

// toldOnce fails if anybody was told twice.
func (q *queue) toldOnce() {
	q.Helper()
	events, err := q.admin.CoreV1().Events("").List(q.Context(), metav1.ListOptions{FieldSelector: "reason=" + reached})
	q.ok(err)
	times := map[types.UID]int32{}
	for _, e := range events.Items {
		if times[e.InvolvedObject.UID] += e.Count; times[e.InvolvedObject.UID] > 1 {
			q.Errorf("claim %s was told %d times that it waits", e.InvolvedObject.Name, times[e.InvolvedObject.UID])
		}
	}
	q.Logf("%d claims were told that they wait", len(times))
}

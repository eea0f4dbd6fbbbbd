//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// One tenant has 500 claims of a class that may have two pods at a time. Another tenant's claim waits for one pod to end, and
// for at most one more; so does its next. The test ends pods in place of a kubelet, all of them refused: a turn is a turn.
func TestTurnsOfNamespaces(t *testing.T) {
	own, err := apiserver.Start(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop) // after the dispatcher has ended
	for _, args := range [][]string{{"apply", "-k", "deploy/base"}, {"create", "serviceaccount", "-n", contract.ProvisionersNamespace, "few"}, {"create", "namespace", "other"}} {
		if _, err := own.Kubectl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := own.StartControllers("persistentvolume-binder-controller"); err != nil {
		t.Fatal(err)
	}
	q := &queue{t: t, admin: own.Client(apiserver.Admin.Token()), ended: map[types.UID]bool{}}
	q.makeClass()
	lacks(t, runDispatcher(t, own, theFirst), "")
	for i := range 500 {
		q.ask("default", fmt.Sprintf("claim-%d", i))
	}
	for range 5 {
		q.end(q.running(2)[0])
	}
	for i := range 2 {
		claim := q.ask("other", fmt.Sprintf("claim-%d", i))
		q.told(claim)
		turns, running := 0, q.running(2)
		for ; !strings.Contains(running[0].Name+running[1].Name, string(claim.UID)); turns++ {
			q.end(running[turns%2])
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
	t     *testing.T
	admin kubernetes.Interface
	ended map[types.UID]bool
}

func (q *queue) ok(err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatal(err)
	}
}

func (q *queue) makeClass() {
	q.t.Helper()
	_, err := q.admin.StorageV1().StorageClasses().Create(q.t.Context(), &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "few"}, Provisioner: contract.ProvisionerName}, metav1.CreateOptions{})
	q.ok(err)
	_, err = q.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Create(q.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "few", Labels: map[string]string{"type": "provisioner-config", "storage-class": "few"}},
		Data: map[string]string{"plugin-name": contract.ProvisionerName, "image": "example.com/x", "service-account-name": "few",
			"max-concurrent": "2", "start-timeout": "1h"},
	}, metav1.CreateOptions{})
	q.ok(err)
}

func (q *queue) ask(namespace, name string) *corev1.PersistentVolumeClaim {
	q.t.Helper()
	class := "few"
	claim, err := q.admin.CoreV1().PersistentVolumeClaims(namespace).Create(q.t.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}, metav1.CreateOptions{})
	q.ok(err)
	return claim
}

// running waits until so many pods have not ended, and returns them.
func (q *queue) running(want int) []corev1.Pod {
	q.t.Helper()
	var pods []corev1.Pod
	eventually(q.t, func() error {
		list, err := q.admin.CoreV1().Pods(contract.ProvisionersNamespace).List(q.t.Context(), metav1.ListOptions{LabelSelector: contract.LabelClaimUID})
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

// end ends a pod as a kubelet would whose container refused the request.
func (q *queue) end(pod corev1.Pod) {
	q.t.Helper()
	pods := q.admin.CoreV1().Pods(pod.Namespace)
	q.ok(pods.Bind(q.t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-1"}}, metav1.CreateOptions{}))
	now, err := pods.Get(q.t.Context(), pod.Name, metav1.GetOptions{})
	q.ok(err)
	now.Status.Phase = corev1.PodFailed
	now.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: podspec.ContainerName, State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: contract.ExitRefused, FinishedAt: metav1.Now()}}}}
	_, err = pods.UpdateStatus(q.t.Context(), now, metav1.UpdateOptions{})
	q.ok(err)
	q.ended[pod.UID] = true
}

const reached = "ConcurrencyLimitReached"

// told waits until the claim says why it waits: it stands in line then.
func (q *queue) told(claim *corev1.PersistentVolumeClaim) {
	q.t.Helper()
	const want = "waiting for other provisioner pods of StorageClass few to end: 2 of at most 2 (max-concurrent) are running or starting; namespaces take turns, and no action is needed"
	eventually(q.t, func() error {
		events, err := q.admin.CoreV1().Events(claim.Namespace).List(q.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(claim.UID)})
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
	q.t.Helper()
	events, err := q.admin.CoreV1().Events("").List(q.t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reached})
	q.ok(err)
	times := map[types.UID]int32{}
	for _, e := range events.Items {
		if times[e.InvolvedObject.UID] += e.Count; times[e.InvolvedObject.UID] > 1 {
			q.t.Errorf("claim %s was told %d times that it waits", e.InvolvedObject.Name, times[e.InvolvedObject.UID])
		}
	}
	q.t.Logf("%d claims were told that they wait", len(times))
}

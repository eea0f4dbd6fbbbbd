//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/kubelet"
)

// hollow is a node without containers: a goroutine does what the container of a provisioner pod would. It makes and removes
// directories that a real node can mount, and creates the volume under the pod's identity. Nothing but the kubelet, the
// token and the image is missing. It is for rates that real pods are too dear for: one takes three quarters of a second of
// processor time.
type hollow struct {
	s      *scope
	name   string
	config *rest.Config
	// volumes is the directory with the storage.
	volumes string
	// twice is told when pods of one claim are at work at the same time.
	twice func(one, other string)

	mu sync.Mutex
	// kills end the containers of the pods that the node has taken on.
	kills   map[types.UID]context.CancelFunc
	claimed map[string]string // the pod that is at work for a claim, by the claim's UID
}

// hollow makes the node, which is ready once it has started.
func (s *scope) hollow() *hollow {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig())
	s.ok(err)
	config.QPS = -1
	h := &hollow{s: s, name: s.name, config: config, kills: map[types.UID]context.CancelFunc{}, claimed: map[string]string{}}
	nodes, leases := shared.admin.CoreV1().Nodes(), shared.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	_, err = nodes.Create(s.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: h.name, Labels: map[string]string{corev1.LabelHostname: h.name, corev1.LabelOSStable: "linux"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "flex-provisioner.io/simulated", Value: "true", Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return nodes.Delete(ctx, h.name, metav1.DeleteOptions{}) })
	_, err = leases.Create(s.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: h.name}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return leases.Delete(ctx, h.name, metav1.DeleteOptions{}) })
	return h
}

// on are the keys of a ConfigMap whose pods are to run on the node.
func (h *hollow) on() map[string]string {
	return map[string]string{
		"node-selector": corev1.LabelHostname + "=" + h.name,
		"tolerations":   `[{key: flex-provisioner.io/simulated, operator: Exists}]`,
	}
}

// start has the node run until the test's claims are gone.
func (h *hollow) start() {
	ctx, stop := context.WithCancel(context.Background())
	h.s.later(func(context.Context) error { stop(); return nil })
	go h.run(ctx)
}

// run is the node's kubelet, until ctx ends.
func (h *hollow) run(ctx context.Context) {
	var lives sync.WaitGroup
	defer lives.Wait()
	lives.Go(func() { h.beat(ctx) })
	for ; ctx.Err() == nil; sleep(ctx, glance) {
		pods := map[types.UID]*corev1.Pod{}
		for _, pod := range all(shared.pods, func(p *corev1.Pod) bool { return p.Spec.NodeName == h.name }) {
			pods[pod.UID] = pod
		}
		h.see(ctx, &lives, pods)
	}
}

// see takes on pods that are new, and ends those that are to be deleted or are gone.
func (h *hollow) see(ctx context.Context, lives *sync.WaitGroup, pods map[types.UID]*corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, kill := range h.kills {
		if pods[uid] == nil {
			kill()
			delete(h.kills, uid)
		}
	}
	for uid, pod := range pods {
		if h.kills[uid] == nil {
			work, kill := context.WithCancel(ctx)
			h.kills[uid] = kill
			lives.Go(func() { h.live(ctx, work, pod) })
		}
		if pod.DeletionTimestamp != nil {
			h.kills[uid]()
		}
	}
}

// live takes a pod from its start to its end.
func (h *hollow) live(ctx, work context.Context, pod *corev1.Pod) {
	now := metav1.Now()
	h.status(ctx, pod, corev1.PodRunning, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}})
	err := h.work(work, pod)
	phase, ended := corev1.PodSucceeded, &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: metav1.Now()}
	switch {
	case work.Err() != nil:
		phase, ended.Reason, ended.ExitCode = corev1.PodFailed, "Error", 137
	case err != nil:
		phase, ended.Reason, ended.ExitCode, ended.Message = corev1.PodFailed, "Error", int32(sdk.ExitCode(err)), sdk.Message(err)
	}
	h.status(ctx, pod, phase, corev1.ContainerState{Terminated: ended})
	h.letGo(ctx, pod)
}

// letGo deletes a pod that somebody has deleted, as a kubelet does when its containers have ended.
func (h *hollow) letGo(ctx context.Context, pod *corev1.Pod) {
	for ; ctx.Err() == nil; sleep(ctx, glance) {
		now := get[corev1.Pod](shared.pods, pod.Namespace+"/"+pod.Name)
		if now == nil || now.UID != pod.UID {
			return
		}
		if now.DeletionTimestamp != nil {
			_ = deleteNow(ctx, pod)
			return
		}
	}
}

// status reports to the API server as a kubelet does, until it is taken or the pod is another.
func (h *hollow) status(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, state corev1.ContainerState) {
	_ = persist(ctx, func() error {
		return kubelet.SetStatus(ctx, shared.admin, pod, corev1.PodStatus{Phase: phase}, state)
	}, apierrors.IsNotFound, apierrors.IsConflict)
}

// work is what the container does; where ctx ends it is killed.
func (h *hollow) work(ctx context.Context, pod *corev1.Pod) error {
	defer h.alone(pod)()
	dir := h.volumes + "/" + podspec.VolumeName(pod.Labels[contract.LabelClaimUID])
	sleep(ctx, time.Duration(rand.IntN(1000))*time.Millisecond)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch contract.Operation(pod.Labels[contract.LabelOperation]) {
	case contract.Provision:
		if err := openDir(dir); err != nil {
			return err
		}
		sleep(ctx, time.Duration(rand.IntN(500))*time.Millisecond)
		return h.createVolume(ctx, pod, dir)
	case contract.Delete:
		return os.RemoveAll(dir)
	}
	return nil
}

// alone notes the pod as the one that works for its claim until the returned function is called.
func (h *hollow) alone(pod *corev1.Pod) func() {
	h.mu.Lock()
	defer h.mu.Unlock()
	uid := pod.Labels[contract.LabelClaimUID]
	if other := h.claimed[uid]; other != "" {
		h.twice(pod.Name, other)
	}
	h.claimed[uid] = pod.Name
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.claimed, uid)
	}
}

func (h *hollow) createVolume(ctx context.Context, pod *corev1.Pod, dir string) error {
	volume, err := kubelet.Volume(pod, nfsServer, dir)
	if err != nil {
		return err
	}
	config := rest.CopyConfig(h.config)
	config.Impersonate = kubelet.Identity(pod)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	_, err = sdk.CreateVolume(ctx, client.CoreV1().RESTClient(), volume)
	return err
}

// kill ends the pod's container as SIGKILL does.
func (h *hollow) kill(pod *corev1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if kill := h.kills[pod.UID]; kill != nil {
		kill()
	}
}

// beat renews the node's lease, and says that the node is ready before it does so for the first time.
func (h *hollow) beat(ctx context.Context) {
	now := metav1.Now()
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1k"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("10k")}
	ready, err := json.Marshal(map[string]any{"status": corev1.NodeStatus{
		Capacity: room, Allocatable: room,
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: now}},
	}})
	if err != nil {
		panic(err) // nothing of it depends on what runs
	}
	_ = persist(ctx, func() error {
		_, err := shared.admin.CoreV1().Nodes().Patch(ctx, h.name, types.MergePatchType, ready, metav1.PatchOptions{}, "status")
		return err
	})
	for ; ctx.Err() == nil; sleep(ctx, 5*time.Second) {
		patch := fmt.Sprintf(`{"spec":{"holderIdentity":%q,"leaseDurationSeconds":40,"renewTime":%q}}`, h.name, time.Now().UTC().Format(metav1.RFC3339Micro))
		_ = persist(ctx, func() error {
			_, err := shared.admin.CoordinationV1().Leases(corev1.NamespaceNodeLease).Patch(ctx, h.name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		})
	}
}

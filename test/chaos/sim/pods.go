package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// podState is what the stand-ins know of a pod besides its object.
type podState struct {
	deleted chan struct{} // closed when the pod gets its deletionTimestamp
	kill    chan string   // takes why the container is ended from outside
	running atomic.Bool   // its container runs
	created time.Time
}

func (w *World) state(pod *corev1.Pod) *podState {
	w.podMu.Lock()
	defer w.podMu.Unlock()
	s := w.pods[pod.UID]
	if s == nil {
		s = &podState{deleted: make(chan struct{}), kill: make(chan string, 1), created: time.Now()}
		w.pods[pod.UID] = s
	}
	return s
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// podChanged hears of pods, under the server's lock.
func (w *World) podChanged(before, after apiserver.Object) {
	if after == nil {
		w.gone(before.(*corev1.Pod))
		return
	}
	pod := after.(*corev1.Pod)
	state := w.state(pod)
	if pod.DeletionTimestamp != nil && !isClosed(state.deleted) {
		close(state.deleted)
	}
	if before == nil {
		w.later(time.Millisecond, 500*time.Millisecond, func() { w.schedulePod(pod.Name) }, "scheduler", "pod", pod.Name)
		return
	}
	if before.(*corev1.Pod).Spec.NodeName == "" && pod.Spec.NodeName != "" {
		n := w.node(pod.Spec.NodeName)
		w.later(10*time.Millisecond, 500*time.Millisecond, func() { w.resume(n, pod) }, "kubelet", "start", pod.Name)
	}
}

func (w *World) gone(pod *corev1.Pod) {
	w.podMu.Lock()
	defer w.podMu.Unlock()
	if s := w.pods[pod.UID]; s != nil && s.running.Load() && !ended(pod) {
		w.trace.add("apiserver", "pod %s removed while its container runs", pod.Name)
	}
}

// schedulePod is the scheduler.
func (w *World) schedulePod(name string) {
	pod, ok := apiserver.Get[*corev1.Pod](w.server, apiserver.Pods, namespace, name)
	if !ok || pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || ended(pod) {
		return
	}
	var fit []*node
	for _, n := range w.readyNodes() {
		if required := nodeOf(pod); required == "" || required == n.name {
			fit = append(fit, n)
		}
	}
	if len(fit) == 0 {
		w.server.Mutate(apiserver.Pods, namespace, name, func(o apiserver.Object) {
			p := o.(*corev1.Pod)
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
		})
		return
	}
	n := fit[w.dice.roll("scheduler", "node", name).IntN(len(fit))]
	w.trace.add("scheduler", "binds %s to %s", name, n.name)
	w.server.Mutate(apiserver.Pods, namespace, name, func(o apiserver.Object) {
		p := o.(*corev1.Pod)
		if p.UID != pod.UID || p.DeletionTimestamp != nil {
			return
		}
		p.Spec.NodeName = n.name
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	})
}

// nodeOf is the node that the pod has to run on, or empty.
func nodeOf(pod *corev1.Pod) string {
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, r := range append(term.MatchFields, term.MatchExpressions...) {
				return r.Values[0]
			}
		}
	}
	return ""
}

// retryPods lets the scheduler look at every pod again.
func (w *World) retryPods() {
	for _, pod := range apiserver.List[*corev1.Pod](w.server, apiserver.Pods) {
		w.later(time.Millisecond, time.Second, func() { w.schedulePod(pod.Name) }, "scheduler", "pod", pod.Name)
	}
}

// disturbPod kills the container of a pod, evicts a pod, or deletes it as a human would, perhaps by force.
func (w *World) disturbPod(a Action) {
	pods := apiserver.List[*corev1.Pod](w.server, apiserver.Pods)
	if len(pods) == 0 {
		return
	}
	pod := pods[a.N%len(pods)]
	state := w.state(pod)
	switch a.Do {
	case "pod-kill":
		select {
		case state.kill <- []string{"killed", "oom", "evicted"}[a.N%3]:
		default:
		}
	case "pod-evict":
		w.disrupt(pod, "EvictionByEvictionAPI")
		w.remove("evictor", apiserver.Pods, namespace, pod.Name)
	case "pod-delete":
		w.remove("human", apiserver.Pods, namespace, pod.Name)
	}
}

// resume is the kubelet that sees a pod on its node: for the first time, or again after the machine was away.
func (w *World) resume(n *node, pod *corev1.Pod) {
	n.mu.Lock()
	life := n.life
	n.mu.Unlock()
	if !n.connected(life) {
		return
	}
	pod, ok := apiserver.Get[*corev1.Pod](w.server, apiserver.Pods, namespace, pod.Name)
	if !ok || pod.Spec.NodeName != n.name || w.state(pod).running.Load() {
		return
	}
	n.mu.Lock()
	before := n.started[pod.UID]
	n.started[pod.UID] = life
	n.mu.Unlock()
	switch {
	case before == life:
		return // it was only cut off, and is still at it
	case ended(pod):
		w.finish(n, life, pod)
	case before != nil:
		// The machine lost what it ran, and the pod is not started twice.
		e := exit{code: 255, reason: "Unknown", ran: true}
		if w.faulty() && w.dice.chance(w.plan.Rates["kubelet-rejects"], "kubelet-rejects", pod.Name) {
			w.drawn("kubelet-rejects") // it has no place for the pod any more, and forgets that its container ran
			e = exit{podReason: "OutOfcpu"}
		}
		w.report(n, life, pod, e)
	default:
		newRun(w, n, life, pod).do()
	}
}

// report writes the end of a pod, and lets go of one that is being deleted.
func (w *World) report(n *node, life context.Context, pod *corev1.Pod, e exit) {
	if !n.connected(life) {
		return
	}
	w.trace.add(n.name, "reports %s: %+v", pod.Name, e)
	w.server.Mutate(apiserver.Pods, namespace, pod.Name, func(o apiserver.Object) {
		p := o.(*corev1.Pod)
		if p.UID != pod.UID || ended(p) {
			return
		}
		p.Status.Phase, p.Status.Reason = corev1.PodFailed, e.podReason
		if e.code == 0 && e.podReason == "" && e.ran {
			p.Status.Phase = corev1.PodSucceeded
		}
		status := corev1.ContainerStatus{Name: podspec.ContainerName, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: e.code, Reason: "ContainerStatusUnknown"}}}
		if e.ran {
			status.ContainerID = "containerd://" + string(pod.UID)
			status.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: e.code, Reason: e.reason, Message: e.message,
				StartedAt: n.now(), FinishedAt: n.now()}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{status}
		if e.podReason == "OutOfcpu" {
			p.Status.ContainerStatuses = nil
		}
	})
	w.finish(n, life, pod)
}

// finish lets the API server remove a pod that was deleted while it was on the node.
func (w *World) finish(n *node, life context.Context, pod *corev1.Pod) {
	now, ok := apiserver.Get[*corev1.Pod](w.server, apiserver.Pods, namespace, pod.Name)
	if ok && now.UID == pod.UID && now.DeletionTimestamp != nil && n.connected(life) {
		none := int64(0)
		_, _ = w.server.Delete(apiserver.Pods, namespace, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
	}
}

// exit is how a pod ended.
type exit struct {
	code      int32
	reason    string // of the container
	message   string
	podReason string
	ran       bool
}

func (e exit) String() string {
	return fmt.Sprintf("exit %d %s %s ran=%v %q", e.code, e.reason, e.podReason, e.ran, e.message)
}

func operation(pod *corev1.Pod) contract.Operation {
	return contract.Operation(pod.Labels[contract.LabelOperation])
}

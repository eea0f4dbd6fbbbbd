package sim

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// run is one pod on one node, from the kubelet's point of view.
type run struct {
	w     *World
	n     *node
	life  context.Context
	pod   *corev1.Pod
	state *podState
}

func newRun(w *World, n *node, life context.Context, pod *corev1.Pod) *run {
	return &run{w, n, life, pod, w.state(pod)}
}

// do takes a pod from its start to its end. It ends early if the machine dies.
func (r *run) do() {
	if !r.start() {
		if r.life.Err() == nil {
			r.w.report(r.n, r.life, r.pod, exit{code: 137})
		}
		return
	}
	e := r.container()
	if r.life.Err() != nil {
		return
	}
	if !r.wait(r.slowly(10*time.Millisecond, 500*time.Millisecond, 5*time.Second, "end"), nil) {
		return
	}
	r.w.report(r.n, r.life, r.pod, e)
}

// slowly is a duration that faults stretch.
func (r *run) slowly(from, to, slow time.Duration, what string) time.Duration {
	if r.w.faulty() && r.w.dice.chance(r.w.plan.Rates["kubelet-slow"], "kubelet-slow", what, r.pod.Name) {
		r.w.drawn("kubelet-slow")
		to = slow
	}
	return r.w.dice.between(from, to, "kubelet", what, r.pod.Name)
}

// wait is false if the machine died or stop was closed first.
func (r *run) wait(d time.Duration, stop <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-stop:
	case <-r.life.Done():
	}
	return false
}

// start is false if the container never ran.
func (r *run) start() bool {
	if !r.wait(r.slowly(50*time.Millisecond, time.Second, 20*time.Second, "start"), r.state.deleted) {
		return false
	}
	for why := r.waits(); why != nil; why = r.waits() {
		r.status(corev1.ContainerState{Waiting: why}, corev1.PodPending)
		if !r.wait(r.w.dice.between(5*time.Second, 20*time.Second, "pull", r.pod.Name), r.state.deleted) {
			return false
		}
	}
	return !isClosed(r.state.deleted) && r.life.Err() == nil
}

// waits is why the container cannot be started yet, or nil.
func (r *run) waits() *corev1.ContainerStateWaiting {
	if _, ok := r.w.mounted(r.pod); !ok {
		return &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	class := r.w.madeFrom(r.pod)
	switch {
	case r.w.images[class.Name]:
		return &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"}
	case r.w.noSecret && class.Cinder:
		return &corev1.ContainerStateWaiting{Reason: "CreateContainerConfigError", Message: "secret \"cinder-cloud-config\" not found"}
	}
	return nil
}

func (r *run) status(state corev1.ContainerState, phase corev1.PodPhase) {
	if !r.n.connected(r.life) {
		return
	}
	r.w.server.Mutate(apiserver.Pods, namespace, r.pod.Name, func(o apiserver.Object) {
		p := o.(*corev1.Pod)
		if p.UID != r.pod.UID || ended(p) {
			return
		}
		p.Status.Phase = phase
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "provisioner", Image: "example.com/image", State: state}}
	})
}

// container runs the container until it ends or is ended.
func (r *run) container() (e exit) {
	w := r.w
	w.containerStarts(r.pod)
	defer w.containerEnds(r.pod)
	c := newContainer(w, r)
	defer func() { e.message = c.location + e.message }() // the kubelet reads the file, however the container ended
	ended := make(chan exit, 1)
	over := make(chan struct{})
	defer close(over)
	go func() { ended <- c.work() }()
	go func() {
		if r.wait(r.slowly(time.Millisecond, 300*time.Millisecond, 5*time.Second, "running"), over) {
			r.status(corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, corev1.PodRunning)
		}
	}()
	deadline := time.NewTimer(time.Duration(*r.pod.Spec.ActiveDeadlineSeconds) * time.Second)
	defer deadline.Stop()
	select {
	case e := <-ended:
		return e
	case <-r.life.Done():
		c.kill()
		return <-ended
	case why := <-r.state.kill:
		w.drawn("container-" + why)
		c.kill()
		e := <-ended
		return map[string]exit{
			"killed": {code: 137, reason: "Error", ran: true}, "oom": {code: 137, reason: "OOMKilled", ran: true},
			"evicted": {code: 137, reason: "Error", podReason: "Evicted", ran: e.ran || true}}[why]
	case <-r.noticed():
		return r.terminate(c, ended, "")
	case <-deadline.C:
		return r.terminate(c, ended, "DeadlineExceeded")
	}
}

// noticed is closed once the kubelet has heard that the pod is to be deleted.
func (r *run) noticed() <-chan struct{} {
	heard := make(chan struct{})
	life, stop := context.WithCancel(r.life)
	context.AfterFunc(r.w.ctx, stop)
	go func() {
		defer stop()
		select {
		case <-r.state.deleted:
			if r.n.connected(life) {
				close(heard)
			}
		case <-life.Done():
		}
	}()
	return heard
}

// terminate is SIGTERM, and SIGKILL after the grace period.
func (r *run) terminate(c *container, ended <-chan exit, podReason string) exit {
	c.terminate()
	grace := time.NewTimer(time.Duration(*r.pod.Spec.TerminationGracePeriodSeconds) * time.Second)
	defer grace.Stop()
	var e exit
	select {
	case e = <-ended:
	case <-grace.C:
		c.kill()
		<-ended
		e = exit{code: 137, reason: "Error", ran: true}
	case <-r.life.Done():
		c.kill()
		e = <-ended
	}
	e.podReason = podReason
	return e
}

// containerStarts checks that no other container may touch the same storage now.
func (w *World) containerStarts(pod *corev1.Pod) {
	w.podMu.Lock()
	uid := pod.Labels[contract.LabelClaimUID]
	var others []string
	for _, other := range w.runningPods {
		if other.Labels[contract.LabelClaimUID] == uid && other.UID != pod.UID {
			others = append(others, other.Name)
		}
	}
	w.runningPods[pod.UID] = pod
	w.podMu.Unlock()
	w.state(pod).running.Store(true)
	w.trace.add("container", "%s starts on %s", pod.Name, pod.Spec.NodeName)
	if len(others) > 0 {
		w.violate("pod %s starts while %v runs", pod.Name, others)
	}
}

func (w *World) containerEnds(pod *corev1.Pod) {
	w.podMu.Lock()
	delete(w.runningPods, pod.UID)
	w.podMu.Unlock()
	w.state(pod).running.Store(false)
	w.trace.add("container", "%s ended", pod.Name)
}

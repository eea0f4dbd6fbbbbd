package sim

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// node is a machine with its kubelet.
type node struct {
	w    *World
	name string
	skew time.Duration // by which its clock is ahead

	mu      sync.Mutex
	life    context.Context // of the machine; what runs on it ends with it
	crash   context.CancelFunc
	online  chan struct{} // closed while the kubelet reaches the API server
	cutoff  bool
	removed bool                          // the Node object was deleted
	gone    time.Time                     // when it was deleted last
	back    time.Time                     // when it came back last
	lost    bool                          // for ever
	drained bool                          // it takes no new pods
	started map[types.UID]context.Context // the machine's life in which it started a pod
}

func newNode(w *World, name string) *node {
	n := &node{w: w, name: name, online: make(chan struct{}), started: map[types.UID]context.Context{}}
	n.life, n.crash = context.WithCancel(w.ctx)
	close(n.online)
	if w.dice.chance(w.plan.Rates["node-clock"], "node-clock", name) {
		w.drawn("node-clock")
		n.skew = w.dice.between(-2*time.Hour, 2*time.Hour, "node-clock", name, "ahead")
	}
	return n
}

// now is the time by the node's clock.
func (n *node) now() metav1.Time { return metav1.NewTime(time.Now().Add(n.skew)).Rfc3339Copy() }

func (w *World) readyNodes() []*node {
	var ready []*node
	for _, n := range w.nodes {
		if n.ready() {
			ready = append(ready, n)
		}
	}
	return ready
}

// reaches reports whether the node reaches the volume's storage.
func (n *node) reaches(v *corev1.PersistentVolume) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	return slices.ContainsFunc(v.Spec.NodeAffinity.Required.NodeSelectorTerms, func(term corev1.NodeSelectorTerm) bool {
		return slices.ContainsFunc(term.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return slices.Contains(r.Values, n.name) })
	})
}

func (n *node) ready() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.cutoff && n.life.Err() == nil && !n.removed && !n.drained
}

func (n *node) isRemoved() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.removed
}

// connected waits until the kubelet reaches the API server; false if the machine died first.
func (n *node) connected(life context.Context) bool {
	for {
		n.mu.Lock()
		online := n.online
		n.mu.Unlock()
		select {
		case <-online:
			n.mu.Lock()
			cutoff := n.cutoff
			n.mu.Unlock()
			if !cutoff {
				return life.Err() == nil
			}
		case <-life.Done():
			return false
		}
	}
}

func (n *node) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cutoff
}

// disturbNode: a machine dies, or is cut off, and comes back, perhaps much later; or dies and its Node object is deleted. Nobody deletes the
// Node object of a machine that still runs: what runs there could not be stopped.
func (w *World) disturbNode(a Action) {
	n := w.nodes[a.N%len(w.nodes)]
	if !n.ready() || a.Do == "node-lost" && !w.canSpare(n) {
		return
	}
	n.mu.Lock()
	if a.Do == "node-cut" {
		n.cutoff, n.online = true, make(chan struct{})
	} else {
		n.crash()
	}
	n.lost = a.Do == "node-lost"
	n.mu.Unlock()
	w.trace.add(n.name, "%s", a.Do)
	gone := time.Now()
	time.AfterFunc(100*time.Second, func() { w.taint(n, gone) })
	away := a.For
	if a.Do == "node-gone" { // for long
		away *= 10
	}
	if a.Do == "node-deleted" || a.Do == "node-lost" || a.Do == "node-gone" {
		time.AfterFunc(a.For/2, func() { w.deleteNode(n) })
	}
	time.AfterFunc(away, func() { w.restoreNode(n) })
}

// canSpare reports whether another node stays for ever, and that nothing is lost with this one.
func (w *World) canSpare(n *node) bool {
	return !slices.ContainsFunc(w.plan.Classes, func(c Class) bool { return c.NodeLocal }) &&
		slices.ContainsFunc(w.nodes, func(other *node) bool { return other != n && !other.lost })
}

// taint evicts the pods of a node that has been away for 40 s to be noticed and 60 s to be tolerated.
func (w *World) taint(n *node, gone time.Time) {
	if w.over.Load() || n.ready() || n.isRemoved() {
		return
	}
	for _, pod := range w.podsOn(n) {
		if pod.DeletionTimestamp == nil {
			w.disrupt(pod, "DeletionByTaintManager")
			w.remove("taint-manager", apiserver.Pods, namespace, pod.Name)
		}
	}
	w.attachments.evict(n)
}

func (w *World) disrupt(pod *corev1.Pod, reason string) {
	w.server.Mutate(apiserver.Pods, namespace, pod.Name, func(o apiserver.Object) {
		p := o.(*corev1.Pod)
		if p.UID == pod.UID && !ended(p) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget,
				Status: corev1.ConditionTrue, Reason: reason, Message: "chaos", LastTransitionTime: metav1.Now().Rfc3339Copy()})
		}
	})
}

// deleteNode is followed by the pod garbage collector.
func (w *World) deleteNode(n *node) {
	if w.over.Load() {
		return
	}
	n.mu.Lock()
	if n.life.Err() == nil {
		n.mu.Unlock()
		return // the machine is back
	}
	n.removed, n.gone = true, time.Now()
	n.mu.Unlock()
	w.trace.add(n.name, "Node object deleted")
	_, _ = w.server.Delete(apiserver.Nodes, "", n.name, metav1.DeleteOptions{})
	_, _ = w.server.Delete(apiserver.CSINodes, "", n.name, metav1.DeleteOptions{})
	w.later(20*time.Second, 60*time.Second, func() {
		if !n.isRemoved() {
			return
		}
		for _, pod := range w.podsOn(n) {
			w.collect(pod)
		}
		w.attachments.evict(n)
	}, "podgc", n.name)
}

// collect is what the pod garbage collector does to an orphan.
func (w *World) collect(pod *corev1.Pod) {
	w.trace.add("podgc", "collects %s", pod.Name)
	w.disrupt(pod, "DeletionByPodGC")
	w.server.Mutate(apiserver.Pods, namespace, pod.Name, func(o apiserver.Object) {
		if p := o.(*corev1.Pod); p.UID == pod.UID && !ended(p) {
			p.Status.Phase = corev1.PodFailed
		}
	})
	none := int64(0)
	_, _ = w.server.Delete(apiserver.Pods, namespace, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &pod.UID}})
}

func (w *World) restoreNode(n *node) {
	if w.over.Load() {
		return
	}
	n.mu.Lock()
	if n.lost {
		n.mu.Unlock()
		return
	}
	if n.life.Err() != nil {
		n.life, n.crash = context.WithCancel(w.ctx)
	}
	if n.cutoff {
		n.cutoff = false
		close(n.online)
	}
	if n.removed {
		n.back = time.Now()
	}
	n.removed, n.drained = false, false
	n.mu.Unlock()
	w.trace.add(n.name, "is back")
	w.register(n)
	for _, pod := range w.podsOn(n) {
		w.later(time.Second, 10*time.Second, func() { w.resume(n, pod) }, "kubelet", "resume", pod.Name)
	}
	w.retryPods()
	for _, name := range sorted(w.claimNames()) {
		w.later(time.Millisecond, time.Second, func() { w.scheduleClaim(name) }, "scheduler", "claim", name)
	}
}

// register is what a kubelet does that finds no Node of its name.
func (w *World) register(n *node) {
	_, _ = w.server.Create(apiserver.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Labels: map[string]string{corev1.LabelHostname: n.name}}})
	w.attachments.register(n)
}

// checkGivenUp checks that a volume went without its storage only if its node was gone, and its class gives such storage up. An
// administrator knows of it from then on.
func (w *World) checkGivenUp(v *corev1.PersistentVolume) {
	class, since := w.plan.class(v.Spec.StorageClassName), v.Annotations[contract.AnnNodeGone]
	if class.GiveUp == 0 || since == "" || w.storage()[keyOf(v)] == "" || w.keptByAdmin(v.Name) {
		return // what is left is found in the end
	}
	for _, n := range w.nodes {
		if !n.reaches(v) {
			continue
		}
		n.mu.Lock()
		removed, gone, back := n.removed, n.gone, n.back
		n.mu.Unlock()
		if !removed && time.Since(back) > decided {
			w.violate("volume %s went without its storage, and node %s exists", v.Name, n.name)
		}
		if w.onlyOnceGone(n) && time.Since(gone) < class.GiveUp-3*time.Second { // clocks tell whole seconds
			w.violate("volume %s went without its storage %s after node %s had gone, and its class says %s", v.Name, time.Since(gone), n.name, class.GiveUp)
		}
	}
	w.trace.add("admin", "knows of what is left of %s", v.Name)
	w.set(func() { w.kept[v.Name] = true })
}

// onlyOnceGone reports whether a node has never been back after its Node was deleted. A dispatcher that was not there, or did not look, does
// not know that it has.
func (w *World) onlyOnceGone(n *node) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.back.IsZero()
}

// drain is what an administrator does before a node's upgrade: no new pods, and those that are there are evicted, whether they have ended
// or not.
func (w *World) drain(a Action) {
	n := w.nodes[a.N%len(w.nodes)]
	n.cordon(true)
	w.trace.add("admin", "drains %s", n.name)
	for _, pod := range w.podsOn(n) {
		if !ended(pod) {
			w.disrupt(pod, "EvictionByEvictionAPI")
		}
		w.remove("evictor", apiserver.Pods, namespace, pod.Name)
		time.AfterFunc(drainLasts, func() { w.checkDrained(pod) })
	}
	time.AfterFunc(a.For, func() {
		if w.over.Load() {
			return
		}
		n.cordon(false)
		w.retryPods()
		for _, name := range sorted(w.claimNames()) {
			w.later(time.Millisecond, time.Second, func() { w.scheduleClaim(name) }, "scheduler", "claim", name)
		}
	})
}

func (n *node) cordon(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.drained = on
}

// drainLasts is how long a drain waits for a pod at most: the grace period of one that runs, the age that its record has to have, and what
// requests take.
const drainLasts = time.Minute

// checkDrained checks that a pod is gone that was evicted, unless something else may have gone wrong.
func (w *World) checkDrained(evicted *corev1.Pod) {
	pod, ok := apiserver.Get[*corev1.Pod](w.server, apiserver.Pods, namespace, evicted.Name)
	if ok && pod.UID == evicted.UID && w.plan.onlyDrains() {
		w.violate("pod %s (%s, finalizers %v) is there %s after its node was drained", pod.Name, pod.Status.Phase, pod.Finalizers, drainLasts)
	}
}

func (w *World) podsOn(n *node) []*corev1.Pod {
	var list []*corev1.Pod
	for _, pod := range apiserver.List[*corev1.Pod](w.server, apiserver.Pods) {
		if pod.Spec.NodeName == n.name {
			list = append(list, pod)
		}
	}
	return list
}

func (w *World) node(name string) *node {
	for _, n := range w.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

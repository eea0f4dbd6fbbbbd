package reconcile

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Delays between the attempts for one claim. They are read off the failed pod, so that a restart of the dispatcher
// neither shortens nor resets them.
const (
	shortestDelay = time.Second
	longestDelay  = 5 * time.Minute
	// busyDelay bounds the delay after a provisioner that asked to be tried again soon.
	busyDelay = 15 * time.Second
	// nodeGrace is how long a node may take to say that a deleted pod has ended, beyond the pod's own grace period.
	nodeGrace = time.Minute
	// SchedulerSilence and kubeletSilence are how long they may say nothing of a pod that they have to take. A kubelet
	// may be busy, and Kubernetes takes 40 seconds to call its node not ready.
	SchedulerSilence = 10 * time.Second
	kubeletSilence   = 20 * time.Second
	// longRun is how long a pod may run before an event says by when it ends.
	longRun = 30 * time.Second
	// unschedulableGrace is how long a claim's selected node may refuse the pod before the scheduler is asked for
	// another.
	unschedulableGrace = 30 * time.Second
)

// retryAt is when a failed attempt is followed by the next: at once if the ConfigMap has changed, since that may be the
// cure, or if an administrator asks for it. Otherwise one second after the first failure, then twice as long each time.
func retryAt(s *observed.Claim, a observed.Attempt) time.Time {
	if Outdated(s, a) || a.Pod.Annotations[contract.AnnRetry] == "true" {
		return s.Now
	}

	delay := min(longestDelay, shortestDelay<<min(a.Number, 9))
	switch a.Outcome.Reason {
	case podspec.ReasonTryAgain:
		delay = min(delay, busyDelay)
	case podspec.ReasonRefused:
		delay = longestDelay
	}

	return s.Ended(a).Add(delay)
}

// delayed reports whether the attempt after a failed one is still to wait, and requeues the claim for it.
func (p *Plan) delayed(s *observed.Claim, failed observed.Attempt) bool {
	at := retryAt(s, failed)
	early := p.waitsUntil(s, at)
	if !early {
		return false
	}

	p.NextAttempt = at

	return true
}

// Outdated reports whether the ConfigMap changed since the attempt was started.
func Outdated(s *observed.Claim, a observed.Attempt) bool {
	return s.Config != nil && !strings.HasSuffix(a.Pod.Annotations[contract.AnnConfig], "@"+s.Config.Digest)
}

// await is for an attempt that has not ended. Its problems are reported. One that does not start in time, or whose
// problem a new ConfigMap may have solved, is stopped. One that runs is bounded by its own deadline.
func (p *Plan) await(s *observed.Claim, a observed.Attempt) {
	if a.Outcome.Reason != podspec.ReasonNone {
		p.report(problem(s, a, a.Outcome.Reason, a.Outcome.Message+taintsOf(s, a)+whereBound(s, a)))
	}

	p.awaitNode(s, a)
	p.awaitAnswer(s, a)
	if a.Outcome.Phase == podspec.Running {
		p.awaitDeadline(s, a)
		return
	}

	removes := a.Op == contract.Delete || a.Op == contract.DeleteSnapshot
	if removes && s.DeletionsStopped != "" {
		p.protect(s, a.Pod, events.ReasonStopped, s.DeletionsStopped)
		p.stop(a)

		return
	}

	if a.Pod.DeletionTimestamp == nil && s.Config != nil {
		p.awaitStart(s, a)
	}
}

// awaitStart is for a pod that has not started.
func (p *Plan) awaitStart(s *observed.Claim, a observed.Attempt) {
	refusedNode := a.Op == contract.Provision && a.Outcome.Reason == podspec.ReasonUnschedulable && forSelected(s, a)
	switch {
	case Outdated(s, a) && a.Outcome.Reason != podspec.ReasonNone:
		p.stop(a)
		return
	case !s.Now.Before(startDeadline(s, a)):
		why := cmp.Or(a.Outcome.Message, "nothing says why")
		message := fmt.Sprintf("the pod did not start within %s: %s", s.Config.StartTimeout, why)
		p.report(problem(s, a, events.ReasonStartTimeout, message))
	case refusedNode:
		patient := p.waitsUntil(s, a.Pod.CreationTimestamp.Add(unschedulableGrace))
		if !patient {
			p.stop(a)
			return
		}
	}

	p.stopIfLate(s, a)
}

// awaitNode reports that somebody deleted a pod whose node does not say that it has ended. No other pod may be created
// before that.
func (p *Plan) awaitNode(s *observed.Claim, a observed.Attempt) {
	if a.Pod.DeletionTimestamp == nil || a.Pod.Spec.NodeName == "" {
		return
	}

	patient := p.waitsUntil(s, a.Pod.DeletionTimestamp.Add(nodeGrace)) // it includes the pod's grace period
	if patient {
		return
	}

	message := fmt.Sprintf("the pod was deleted, and node %s does not say that it has ended, so that no other pod "+
		"can do its work; bring the node back, or if it never comes back: kubectl delete node %[1]s",
		a.Pod.Spec.NodeName)
	p.report(problem(s, a, events.ReasonNodeLost, message))
}

// awaitAnswer reports that the scheduler, or the pod's node, says nothing of a pod.
func (p *Plan) awaitAnswer(s *observed.Claim, a observed.Attempt) {
	if a.Outcome.Reason != podspec.ReasonNone || a.Pod.DeletionTimestamp != nil {
		return
	}

	node, status := a.Pod.Spec.NodeName, a.Pod.Status
	notReady := nodeNotReady(s, a)
	if notReady != "" {
		p.report(problem(s, a, events.ReasonNodeLost, fmt.Sprintf("%s, and does not say whether the pod still runs; "+
			"bring the node back, or if it never comes back: kubectl delete node %s", notReady, node)))

		return
	}

	who, runs, patience, reason := "the scheduler", "kube-scheduler runs", SchedulerSilence, podspec.ReasonUnschedulable
	if node != "" {
		who, runs, patience, reason = "the kubelet of node "+node, "it runs", kubeletSilence, events.ReasonNodeLost
	}

	taken := status.StartTime != nil || len(status.ContainerStatuses) > 0
	patient := !taken && p.waitsUntil(s, askedAt(a.Pod).Add(patience))
	if taken || patient {
		return
	}

	p.report(problem(s, a, reason,
		fmt.Sprintf("%s has said nothing of the pod for %s: see whether %s", who, patience, runs)))
}

// nodeNotReady says that the attempt's node is not ready, by the pod or by the node; empty where neither says so. While
// only its container runtime is away, a kubelet says nothing on pods.
func nodeNotReady(s *observed.Claim, a observed.Attempt) string {
	node := a.Pod.Spec.NodeName
	if podspec.NotReady(a.Pod) {
		return fmt.Sprintf("node %s is not ready", node)
	}

	if s.AttemptNode == nil || s.AttemptNode.Name != node {
		return ""
	}

	for _, c := range s.AttemptNode.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("node %s is not ready (%s)", node, podspec.Clean(c.Message))
		}
	}

	return ""
}

// askedAt is when the pod was given a node, or before that when it was created.
func askedAt(pod *corev1.Pod) time.Time {
	at := pod.CreationTimestamp.Time
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.LastTransitionTime.After(at) {
			at = c.LastTransitionTime.Time
		}
	}

	return at
}

// awaitDeadline reports that a pod runs for long, and that its deadline has passed. The kubelet says so only after the
// container has ended, and a shell that handles no signals takes all of its grace period for that.
func (p *Plan) awaitDeadline(s *observed.Claim, a observed.Attempt) {
	started := s.Started(a)
	if started.IsZero() || a.Pod.Spec.ActiveDeadlineSeconds == nil {
		return
	}

	seconds := *a.Pod.Spec.ActiveDeadlineSeconds
	timeout := time.Duration(seconds) * time.Second
	inTime := p.waitsUntil(s, started.Add(timeout))
	if inTime {
		recent := p.waitsUntil(s, started.Add(longRun))
		if !recent {
			on := events.For(a.Op, s.Holder(), s.Volume)
			p.report(events.RunsLong(on, a.Pod, started.Add(timeout), timeout))
		}

		return
	}

	e := problem(s, a, podspec.ReasonDeadline, fmt.Sprintf("the pod ran into its deadline of %ds", seconds))
	e.WithPodLog = true // what it printed last is what it waits for
	p.report(e)
}

// stopIfLate stops a pod that does not run by the time at which it must have started.
func (p *Plan) stopIfLate(s *observed.Claim, a observed.Attempt) {
	starting := a.Outcome.Phase == podspec.Starting && a.Pod.DeletionTimestamp == nil
	if !starting || s.Config == nil {
		return
	}

	inTime := p.waitsUntil(s, startDeadline(s, a))
	if !inTime {
		p.stop(a)
	}
}

func startDeadline(s *observed.Claim, a observed.Attempt) time.Time {
	return a.Pod.CreationTimestamp.Add(s.Config.StartTimeout)
}

// stop deletes a pod that has not started.
func (p *Plan) stop(a observed.Attempt) {
	if a.Pod.DeletionTimestamp == nil {
		p.do(StopPod{Pod: a.Pod})
	}
}

// taintsOf says for which taints a node does not take a pod that may run on no other: the scheduler names none.
func taintsOf(s *observed.Claim, a observed.Attempt) string {
	if s.AttemptNode == nil || a.Outcome.Reason != podspec.ReasonUnschedulable {
		return ""
	}

	taints := podspec.Untolerated(a.Pod, s.AttemptNode)
	if len(taints) == 0 {
		return ""
	}

	return fmt.Sprintf("; the pod does not tolerate what node %s has: %s",
		s.AttemptNode.Name, strings.Join(taints, ", "))
}

// whereBound says which node is to take a pod that none takes, and what can be done: what the scheduler says names no
// node.
func whereBound(s *observed.Claim, a observed.Attempt) string {
	if a.Outcome.Reason != podspec.ReasonUnschedulable || s.Config == nil {
		return ""
	}

	selected, nodes := s.SelectedNode(), podspec.RequiredTerms(a.Pod)
	left := a.Pod.Annotations[contract.AnnNode]
	switch {
	case a.Op == contract.Provision && s.Pinned():
		return fmt.Sprintf("; the data to copy is on the node with %s", nodes)
	case a.Op == contract.Provision && s.Config.NodeLocal && selected != "":
		return fmt.Sprintf("; it has to run on node %s, which was selected for the pod that uses the claim: leave "+
			"room for it there (the ConfigMap's resources), or keep that pod off the node", selected)
	case a.Op == contract.Delete && s.Volume != nil && nodes != "":
		return fmt.Sprintf("; its storage is on the node with %s: if that never comes back, give the storage up: "+
			"kubectl patch pv %s --type=merge -p '{\"metadata\":{\"finalizers\":null}}' && kubectl delete pv %[2]s",
			nodes, s.Volume.Name)
	case a.Op == contract.Delete && left != "":
		return fmt.Sprintf("; what an attempt may have made is on node %s: bring the node back", left)
	}

	return ""
}

// reportRefusal says that a node refused the last attempt, as long as the claim waits for another node or for the next
// attempt, and what can be done if the scheduler selects the node again: it does not know of the refusal.
func (p *Plan) reportRefusal(s *observed.Claim) {
	latest, ok := s.Latest(contract.Provision)
	if !ok || !failedOnNode(latest) || !s.WaitsForConsumer() {
		return
	}

	reason, message := latest.Outcome.Reason, latest.Outcome.Message
	if why := podspec.Unschedulable(latest.Pod); reason != podspec.ReasonNotHere && why != "" {
		reason, message = podspec.ReasonUnschedulable, why
	}

	node := latest.Node()
	again := node != "" && node == s.SelectedNode()
	if again {
		message += fmt.Sprintf("; the scheduler selected node %s again: keep the pod that uses the claim off it, "+
			"or let the node serve the claim", node)
	}

	e := problem(s, latest, reason, message)
	if again {
		e.Key += "/again"
	}

	p.report(e)
}

// reportFailure reports how an attempt failed.
func (p *Plan) reportFailure(s *observed.Claim, a observed.Attempt) {
	if e, ok := failure(s, a); ok {
		p.report(e)
	}
}

func failure(s *observed.Claim, a observed.Attempt) (e events.Event, ok bool) {
	if a.Pod.DeletionTimestamp != nil && !a.Outcome.MayHaveRun {
		return e, false // the dispatcher stopped it, for a reason that was reported
	}

	reason, message := a.Outcome.Reason, a.Outcome.Message
	if a.Outcome.Phase == podspec.Succeeded {
		reason = events.ReasonNoVolume
		message = fmt.Sprintf("the container exited with code 0, but volume %s does not exist",
			podspec.VolumeName(s.UID))
	}

	switch {
	case reason == podspec.ReasonEvicted:
		message += "; the next attempt follows"
	case strings.Contains(message, ` cannot create resource "persistentvolumes"`):
		message += ": " + events.BindPods
	}

	e = problem(s, a, reason, message)
	_, e.WithPodLog = podspec.LogContainer(a.Pod, a.Outcome)

	return e, true
}

func problem(s *observed.Claim, a observed.Attempt, reason podspec.Reason, message string) events.Event {
	return events.AttemptProblem(events.For(a.Op, s.Holder(), s.Volume), a.Pod, reason, message)
}

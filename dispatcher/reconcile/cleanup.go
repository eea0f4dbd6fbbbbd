package reconcile

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// acknowledge ends attempts whose outcome has been acted on. A failed pod stays for the class's failed-pod-ttl.
func (p *Plan) acknowledge(s *observed.Claim, list ...observed.Attempt) {
	for _, a := range list {
		p.do(AcknowledgePod{Attempt: a, Keep: keepFor(s, a)})
	}
}

// acknowledgeKeepingNames ends attempts of a claim that waits. Their numbers only grow, and the first one's name stays
// taken. So a dispatcher whose cache lags, or shows none of them, asks for a name that exists.
func (p *Plan) acknowledgeKeepingNames(s *observed.Claim, list ...observed.Attempt) {
	for _, a := range list {
		p.do(AcknowledgePod{Attempt: a, Keep: keepFor(s, a), KeepName: nameNeeded(s, a)})
	}
}

// replace ends the operation's earlier attempts, once the next one exists.
func (p *Plan) replace(s *observed.Claim, op contract.Operation) {
	for _, a := range append(s.Of(op), s.Retained...) {
		if a.Op == op {
			p.do(AcknowledgePod{Attempt: a, KeepName: a.Number == 0 && nameNeeded(s, a)})
		}
	}
}

// endRetained ends the time of retained pods.
func (p *Plan) endRetained(s *observed.Claim) {
	for _, a := range s.Retained {
		if nameNeeded(s, a) || p.acknowledges(a.Pod) {
			continue
		}

		acknowledged := AcknowledgePod{Attempt: a}
		until := s.Ended(a).Add(keepFor(s, a))
		stays := p.waitsUntil(s, until)
		if stays {
			acknowledged.Keep = until.Sub(s.Now)
		}

		p.do(acknowledged)
	}
}

func (p *Plan) acknowledges(pod *corev1.Pod) bool {
	return p.acknowledgesAs(pod, func(AcknowledgePod) bool { return true })
}

func (p *Plan) acknowledgesAs(pod *corev1.Pod, is func(AcknowledgePod) bool) bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool {
		acknowledged, ok := a.(AcknowledgePod)
		return ok && acknowledged.Pod.UID == pod.UID && is(acknowledged)
	})
}

// savedFor is how long the record of a pod has to exist before the pod goes, and its name is free. A former leader acts
// on what it read up to ten seconds before, and may have read neither.
const savedFor = 12 * time.Second

// replacedWithin is how long a pod that somebody deletes may wait for the pod that replaces it.
const replacedWithin = 5 * time.Second

// keepRecords keeps what pods say, also in a plan that is put off.
func (p *Plan) keepRecords(s *observed.Claim) {
	p.noteVolume(s)
	p.letGo(s)
}

// letGo saves ended pods that somebody deletes while they are still needed: a drain of their node waits until they are
// gone. What is said on a pod after its end is brought to its record.
func (p *Plan) letGo(s *observed.Claim) {
	for _, a := range s.All() {
		held := heldOnNode(a) && !p.endsSoon(s, a)
		if !held {
			continue
		}

		if a.Saved == nil || !maps.Equal(podspec.Words(a.Pod.Annotations), podspec.Words(a.Saved.Annotations)) {
			p.do(SavePod{a})
			continue
		}

		early := p.waitsUntil(s, a.Saved.CreationTimestamp.Add(savedFor))
		if !early {
			p.do(ReleasePod{a})
		}
	}
}

// endsSoon reports whether the plan ends the attempt, so that its pod goes without a record. Where it goes once the
// next one is created, the API server may refuse that for long.
func (p *Plan) endsSoon(s *observed.Claim, a observed.Attempt) bool {
	ends := p.acknowledgesAs(a.Pod, func(a AcknowledgePod) bool { return !a.KeepName })
	_, creates := Find[CreatePod](*p)
	if !ends || !creates {
		return ends
	}

	deleted := latest(s.Ended(a), a.Pod.DeletionTimestamp.Time)

	return p.waitsUntil(s, deleted.Add(replacedWithin))
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}

	return a
}

// heldOnNode reports whether somebody deletes an ended pod that has a node, and only its finalizer keeps it.
func heldOnNode(a observed.Attempt) bool {
	kept := slices.Contains(a.Pod.Finalizers, contract.PodFinalizer)
	deleted := a.Pod.DeletionTimestamp != nil && a.Pod.Spec.NodeName != ""

	return !a.Gone && kept && deleted && a.Outcome.Final()
}

// keepFor is how long a pod stays for its log after its outcome has been acted on. One that was saved has gone, or is
// about to.
func keepFor(s *observed.Claim, a observed.Attempt) time.Duration {
	if s.Config == nil || a.Outcome.Phase != podspec.Failed || a.Saved != nil {
		return 0
	}

	return s.Config.FailedPodTTL
}

// nameNeeded reports whether a pod has to stay for its number alone: the first and the newest of a claim that waits;
// the first while another one runs, whatever has become of the claim or its class since; and the first of deletes, or
// of the attempts of a snapshot or attachment, that have not come to an end. A dispatcher that knows of none of them
// finds the name taken.
func nameNeeded(s *observed.Claim, a observed.Attempt) bool {
	first := a.Number == 0
	if s.Pending() && (first || s.Newest(a)) {
		return true
	}

	attempts := s.Of(a.Op)
	_, runs := observed.Unfinished(attempts)
	byRecord := a.Op == contract.Delete || podspec.OfSnapshot(a.Op) || podspec.OfAttachment(a.Op)
	unended := byRecord && len(attempts) > 0

	return first && (runs || unended)
}

// Deferrable reports whether a plan only ends attempts, for which nobody waits, and on which node the first of their
// pods ran. Its events, when it requeues, and that it confirms the volume do not count.
func (p Plan) Deferrable(s *observed.Claim) (node string, ok bool) {
	if somebodyWaits(s) || p.Confirm == Everything || p.ProtectedBy != podspec.ReasonNone {
		return "", false
	}

	for i, action := range p.Actions {
		acknowledged, only := action.(AcknowledgePod)
		if !only || !acknowledged.deferrable() {
			return "", false
		}

		if i == 0 {
			node, ok = acknowledged.Pod.Spec.NodeName, true
		}
	}

	return node, ok
}

// somebodyWaits reports whether somebody waits for the end of an attempt, or there is none. An expansion waits for the
// end of the one before it.
func somebodyWaits(s *observed.Claim) bool {
	return s.UserWaits() || len(s.Attempts) == 0 || len(s.Of(contract.Expand)) > 0
}

// deferrable is false where the pod is being deleted: whoever deletes a pod waits for its end.
func (a AcknowledgePod) deferrable() bool { return !a.KeepName && a.Pod.DeletionTimestamp == nil }

// WaitForSlot puts an attempt off while its class has as many pods as it may have. From reportAt on an event says so.
func (p *Plan) WaitForSlot(s *observed.Claim, spec observed.AttemptSpec, used int, reportAt time.Time) {
	p.Actions, p.Confirm, p.ProtectedBy, p.Forget = nil, Nothing, podspec.ReasonNone, false
	p.endRetained(s)
	p.keepRecords(s)
	early := p.waitsUntil(s, reportAt)
	if early {
		return
	}

	on := events.For(spec.Op, s.Holder(), s.Volume)
	p.report(events.ConcurrencyLimitReached(on, spec.MadeBy, s.ClassName, used, s.Config.MaxConcurrent))
}

// Defer puts the plan's actions off.
func (p *Plan) Defer(until time.Time) {
	p.Actions, p.Confirm, p.Forget = nil, Nothing, false
	p.RequeueBy(until)
}

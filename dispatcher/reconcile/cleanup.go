package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// cleanUp ends attempts whose outcome has been acted on. A failed pod stays for the class's failed-pod-ttl.
func (p *Plan) cleanUp(s *snapshot.Snapshot, list ...snapshot.Attempt) {
	for _, a := range list {
		p.do(CleanUpPod{Pod: a.Pod, Keep: keepFor(s, a.Pod)})
	}
}

// cleanUpKeepingNames ends attempts of a claim that waits. Their numbers only grow and the first one's name stays taken: a dispatcher whose
// cache lags, or shows none of them, orders a name that exists.
func (p *Plan) cleanUpKeepingNames(s *snapshot.Snapshot, list ...snapshot.Attempt) {
	for _, a := range list {
		p.do(CleanUpPod{Pod: a.Pod, Keep: keepFor(s, a.Pod), KeepName: nameNeeded(s, a)})
	}
}

// replace ends the operation's earlier attempts, once the next one exists.
func (p *Plan) replace(s *snapshot.Snapshot, op contract.Operation) {
	for _, list := range [][]snapshot.Attempt{s.Of(op), s.Retained} {
		for _, a := range list {
			if a.Op == op {
				p.do(CleanUpPod{Pod: a.Pod, KeepName: a.Number == 0 && nameNeeded(s, a)})
			}
		}
	}
}

// cleanUpRetained ends the time of retained pods.
func (p *Plan) cleanUpRetained(s *snapshot.Snapshot) {
	for _, a := range s.Retained {
		if nameNeeded(s, a) || p.cleansUp(a.Pod) {
			continue
		}
		until := s.Ended(a).Add(keepFor(s, a.Pod))
		if p.waitsUntil(s, until) {
			p.do(CleanUpPod{Pod: a.Pod, Keep: until.Sub(s.Now)})
		} else {
			p.do(CleanUpPod{Pod: a.Pod})
		}
	}
}

func (p *Plan) cleansUp(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.Actions, func(a Action) bool {
		c, ok := a.(CleanUpPod)
		return ok && c.Pod.UID == pod.UID
	})
}

// keepFor is how long a pod stays for its log after its outcome has been acted on.
func keepFor(s *snapshot.Snapshot, pod *corev1.Pod) time.Duration {
	if s.Config == nil || podspec.OutcomeOf(pod).Phase != podspec.Failed {
		return 0
	}
	return s.Config.FailedPodTTL
}

// nameNeeded reports whether a pod has to stay for its number alone: the first and the newest of a claim that waits, and the first of
// deletes that have not come to an end. A dispatcher that knows of none of them finds the name taken.
func nameNeeded(s *snapshot.Snapshot, a snapshot.Attempt) bool {
	return s.Pending() && (a.Number == 0 || s.Newest(a)) || a.Op == contract.Delete && a.Number == 0 && len(s.Of(contract.Delete)) > 0
}

// Deferrable reports whether a plan only ends attempts, for which nobody waits, and on which node the first of their pods ran. Its
// events, when it requeues, and that it confirms the volume do not count. Whoever deletes a pod waits for its end, and an expansion waits
// for the end of the one before it.
func (p Plan) Deferrable(s *snapshot.Snapshot) (node string, ok bool) {
	if s.UserWaits() || p.Confirm == Everything || p.ProtectedBy != "" || len(p.Actions) == 0 || len(s.Attempts) == 0 || len(s.Of(contract.Expand)) > 0 {
		return "", false
	}
	for _, action := range p.Actions {
		if c, ok := action.(CleanUpPod); !ok || c.KeepName || c.Pod.DeletionTimestamp != nil {
			return "", false
		}
	}
	return p.Actions[0].(CleanUpPod).Pod.Spec.NodeName, true
}

// WaitForPlace puts an attempt off while its class has as many pods as it may have. From reportAt on an event says so.
func (p *Plan) WaitForPlace(s *snapshot.Snapshot, order snapshot.Order, used int, reportAt time.Time) {
	p.Actions, p.Confirm, p.ProtectedBy, p.Forget = nil, Nothing, podspec.ReasonNone, false
	p.cleanUpRetained(s)
	if p.waitsUntil(s, reportAt) {
		return
	}
	p.record(events.ConcurrencyLimitReached(events.For(order.Op, s.Holder(), s.Volume), order.Record, s.ClassName, used, s.Config.MaxConcurrent))
}

// Defer puts the plan's actions off.
func (p *Plan) Defer(until time.Time) {
	p.Actions, p.Confirm, p.Forget = nil, Nothing, false
	p.RequeueBy(until)
}

package progress

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// conditionRest is how long a condition stays as it was written. Each write requeues the claim. An API server or a
// webhook may answer with another text each time. Without a rest, requests and writes would follow each other for ever.
const conditionRest = time.Minute

// SetCondition adds to the plan that the claim's status says why the claim waits, as the plan's events do, which end
// after an hour. It comes last: a plan that is put off has other events. Nothing is written for a claim that is served
// without trouble. What was written is removed once nothing is to be done, or the next attempt is made. While an
// attempt runs, the status says why the last one failed.
func SetCondition(s *observed.Claim, p *reconcile.Plan, operation string) {
	claim := s.Holder()
	if claim == nil || claim.DeletionTimestamp != nil || s.ServedElsewhere(claim) {
		return
	}

	had, waiting := observed.WaitingCondition(claim)
	e, waits := waitingEvent(s, p.Events)
	switch {
	case operation != "" && waits:
		now := reconcile.SetWaitingCondition{Reason: e.Reason, Message: podspec.EventMessage(e.Message)}
		said := had.Reason == string(now.Reason) && had.Message == now.Message
		if waiting && said {
			return
		}

		written := had.LastProbeTime.Time
		again := written.Add(conditionRest)
		rests := s.Now.Before(again) && !written.After(s.Now)
		if waiting && rests {
			p.RequeueBy(again)
			return
		}

		p.Actions = append(p.Actions, now)
	case waiting && (operation == "" || followed(p, had)):
		p.Actions = append(p.Actions, reconcile.SetWaitingCondition{})
	}
}

// followed reports whether the plan's next attempt ends the condition. One about a volume that is gone by then stays
// until the attempt ends.
func followed(p *reconcile.Plan, had corev1.PersistentVolumeClaimCondition) bool {
	_, created := reconcile.Find[reconcile.CreatePod](*p)
	return created && had.Reason != string(events.ReasonVolumeMismatch)
}

// waitingEvent is the last event on the claim that says why the claim waits: why there is no next attempt comes after
// how the last one failed.
func waitingEvent(s *observed.Claim, all []events.Event) (last events.Event, ok bool) {
	for _, e := range all {
		ofOther := e.OfMaking() && s.HandedOver()
		persists := e.Persists() && e.Reason != events.ReasonVolumeMended
		if e.On == events.OnClaim && persists && !ofOther {
			last, ok = e, true
		}
	}

	return last, ok
}

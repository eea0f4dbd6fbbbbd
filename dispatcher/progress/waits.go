package progress

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// conditionRest is for how long a condition stays as it was written. Each write requeues the claim. What an API server or a webhook answers
// may have another text each time, so that without a rest request and write would follow each other for ever.
const conditionRest = time.Minute

// SetCondition adds to the plan that the claim's status says why the claim waits, as the plan's events do, which end after an hour. It comes
// last: a plan that is put off has other events. Nothing is written for a claim that is served without trouble. What was written is
// removed once nothing is to be done, or the next attempt is made. While an attempt runs, the status says why the last one failed.
func SetCondition(s *snapshot.Snapshot, p *reconcile.Plan, operation string) {
	claim := s.Holder()
	if claim == nil || claim.DeletionTimestamp != nil || claim == s.Claim && s.Elsewhere {
		return
	}
	had, waiting := snapshot.WaitingCondition(claim)
	e, waits := waitingEvent(s, p.Events)
	_, created := reconcile.Find[reconcile.CreatePod](*p)
	switch {
	case operation != "" && waits:
		now := reconcile.SetWaitingCondition{Reason: e.Reason, Message: podspec.EventMessage(e.Message)}
		if waiting && had.Reason == string(now.Reason) && had.Message == now.Message {
			return
		}
		written := had.LastProbeTime.Time
		if again := written.Add(conditionRest); waiting && s.Now.Before(again) && !written.After(s.Now) {
			p.RequeueBy(again)
			return
		}
		p.Actions = append(p.Actions, now)
	case waiting && (operation == "" || created):
		p.Actions = append(p.Actions, reconcile.SetWaitingCondition{})
	}
}

// waitingEvent is the last event on the claim that says why the claim waits: why there is no next attempt comes after how the last one failed.
func waitingEvent(s *snapshot.Snapshot, all []events.Event) (last events.Event, ok bool) {
	for _, e := range all {
		ofOther := e.OfMaking() && s.HandedOver()
		if e.On == events.OnClaim && e.Persists() && e.Reason != events.ReasonVolumeMended && !ofOther {
			last, ok = e, true
		}
	}
	return last, ok
}

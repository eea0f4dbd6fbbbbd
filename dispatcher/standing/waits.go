package standing

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// restWaits is for how long a condition stays as it was written. Each write asks for another look at once. What an API server or a webhook
// answers may have another text each time, so that without a rest the look, the request and the write follow each other for ever.
const restWaits = time.Minute

// Tell has the claim's status say why the claim waits, by the events of the plan, since events end after an hour. It comes last: a
// plan that is put off says other things. Nothing is written for a claim that is served without trouble, and what was written goes once
// nothing is to be done, or the next attempt is made of what kept the claim waiting. While an attempt runs, the status says why the
// last one failed.
func Tell(s *snapshot.Snapshot, p *reconcile.Plan, operation string) {
	if !s.ClaimLives() {
		return
	}
	had, told := snapshot.Waits(s.Claim)
	e, waits := waitsFor(p.Events)
	_, created := reconcile.Find[reconcile.CreatePod](*p)
	switch {
	case operation != "" && waits:
		now := reconcile.SetWaits{Reason: e.Reason, Message: podspec.EventMessage(e.Message)}
		if told && had.Reason == string(now.Reason) && had.Message == now.Message {
			return
		}
		written := had.LastProbeTime.Time
		if again := written.Add(restWaits); told && s.Now.Before(again) && !written.After(s.Now) {
			p.LookAt(again)
			return
		}
		p.Actions = append(p.Actions, now)
	case told && (operation == "" || created):
		p.Actions = append(p.Actions, reconcile.SetWaits{})
	}
}

// waitsFor is the last event on the claim that says why the claim waits: what keeps the next attempt comes after how the last one failed.
func waitsFor(all []events.Event) (last events.Event, ok bool) {
	for _, e := range all {
		if e.On == events.OnClaim && e.Standing() && e.Reason != events.ReasonVolumeMended {
			last, ok = e, true
		}
	}
	return last, ok
}

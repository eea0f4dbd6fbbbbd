package reconcile

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// provision is for a claim that waits and has no volume.
func (p *Plan) provision(s *snapshot.Snapshot, provisions []snapshot.Attempt) {
	if running, ok := snapshot.Unfinished(provisions); ok {
		p.await(s, running)
		return
	}
	newest, tried := snapshot.Last(provisions)
	if tried {
		p.recordFailure(s, newest)
		if newest.Outcome.Phase == podspec.Succeeded {
			p.Confirm = Everything // the volume may be on its way to the cache
		}
	}
	made, suspected := snapshot.Suspect(provisions)
	if tried && s.SelectedNode() != "" && failedOnNode(newest) && newest.Pod.UID != s.Rescheduled && (!suspected || s.Config != nil && !s.Config.NodeLocal) {
		p.do(Reschedule{newest.Pod.UID})
		if !suspected {
			p.cleanUpKeepingNames(s, provisions...)
		}
		return
	}
	if s.WaitsForNode() {
		p.Forget = !tried // the library may have handed it over by the node that the scheduler was asked to replace
		return
	}
	if !s.Wanted {
		p.do(ResyncClaim{})
		p.Forget = !tried
		return
	}
	if reason, why, blocked := obstacles.ToProvision(s); reason != podspec.ReasonNone {
		settling := reason == events.ReasonConfigMissing || reason == events.ReasonMountNotBound
		if until := s.WantedSince.Add(configGrace); settling && s.Now.Before(until) {
			p.RequeueBy(until)
			return
		}
		p.Blocked = blocked
		p.record(events.ClaimWaits(reason, why))
		return
	}
	if suspected && s.IdentityChanged(made) {
		// The new properties do not find the storage of the earlier attempt.
		p.record(events.Undo(made.Pod))
		p.undo(s, provisions, made)
		return
	}
	// The latest counts also if it was cleaned up after its storage had been removed: a provisioner that makes unfit volumes is not
	// asked for the next one at once.
	if latest, ok := s.Latest(contract.Provision); ok && p.delayed(s, latest) {
		return
	}
	order := snapshot.Order{Op: contract.Provision, Node: s.SelectedNode()}
	if suspected {
		order.Record = made.Pod
		if node := made.Node(); s.Config.NodeLocal && node != "" {
			order.Node = node
		}
	}
	p.create(s, order)
}

// configGrace is how long a claim waits for its class's ConfigMap, and for the claims that this mounts, before an event says so. All may be
// applied together, and the claim may reach its cache first.
const configGrace = 2 * time.Second

// create orders the operation's next attempt, on confirmed facts alone. It replaces the operation's ended pods.
func (p *Plan) create(s *snapshot.Snapshot, order snapshot.Order) {
	order.Number = s.NextNumber(order.Op)
	p.Confirm = Everything
	p.do(CreatePod{order})
	p.replace(s, order.Op)
}

// failedOnNode reports whether an attempt ended because of its node, and made nothing there.
func failedOnNode(a snapshot.Attempt) bool {
	return a.Outcome.Reason == podspec.ReasonNotHere || !a.Outcome.MayHaveRun && a.Pod.Spec.NodeName == ""
}

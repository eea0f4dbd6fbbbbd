package reconcile

import (
	"cmp"
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// provision is for a claim that waits and has no volume.
func (p *Plan) provision(s *observed.Claim, provisions []observed.Attempt) {
	if running, ok := observed.Unfinished(provisions); ok {
		p.awaitProvision(s, running)
		return
	}

	newest, tried := observed.Last(provisions)
	if tried {
		p.reportFailure(s, newest)
		if newest.Outcome.Phase == podspec.Succeeded {
			p.Confirm = Everything // the volume may be on its way to the cache
		}
	} else {
		p.reportRefusal(s)
	}

	made, suspected := observed.Suspect(provisions)
	if tried && nodeUnfit(s, newest) && mayMove(s, suspected) {
		p.do(Reschedule{After: newest.Pod.UID, Without: refusedBy(s)})
		if !suspected {
			p.acknowledgeKeepingNames(s, provisions...)
		}

		return
	}

	may := p.mayProvision(s, tried)
	if !may {
		return
	}

	if suspected && s.IdentityChanged(made) {
		// The new properties do not find the storage of the earlier attempt.
		p.report(events.Undo(made.Pod))
		p.undo(s, provisions, made)

		return
	}

	// The latest counts also if its outcome was acted on after its storage had been removed: a provisioner that makes
	// unfit volumes is not asked for the next one at once.
	latest, attempted := s.Latest(contract.Provision)
	delayed := attempted && p.delayed(s, latest)
	if delayed {
		return
	}

	spec := observed.AttemptSpec{Op: contract.Provision, Node: s.NodeToMakeOn()}
	if suspected {
		spec.MadeBy = made.Pod
		spec.Node = cmp.Or(localNode(s, made), spec.Node)
	}

	p.create(s, spec)
}

// localNode is the node that may have node-local storage of the attempt, empty for none.
func localNode(s *observed.Claim, a observed.Attempt) string {
	if !s.Config.NodeLocal {
		return ""
	}

	return a.Node()
}

// mayProvision reports whether a claim may get a pod now. Otherwise the plan says what the claim waits for.
func (p *Plan) mayProvision(s *observed.Claim, tried bool) bool {
	switch {
	case s.WaitsForNode():
		p.Forget = !tried // the library may have handed it over by the node that the scheduler was asked to replace
		return false
	case !s.Wanted:
		p.do(ResyncClaim{})
		p.Forget = !tried

		return false
	}

	reason, why, blocked := obstacles.ToProvision(s)
	if reason == podspec.ReasonNone {
		return true
	}

	settling := reason == events.ReasonConfigMissing || reason == events.ReasonMountNotBound
	until := s.WantedSince.Add(configGrace)
	if settling && s.Now.Before(until) {
		p.RequeueBy(until)
		return false
	}

	if s.Host.Unlabeled {
		p.RequeueBy(s.Now.Add(nodePeriod))
	}

	p.Blocked = blocked
	p.report(events.ClaimWaits(reason, why))

	return false
}

// configGrace is how long a claim waits for its class's ConfigMap, and for the claims that this mounts, before an event
// says so. All may be applied together, and the claim may reach its cache first.
const configGrace = 2 * time.Second

// create starts the operation's next attempt, on confirmed facts alone. It replaces the operation's ended pods.
func (p *Plan) create(s *observed.Claim, spec observed.AttemptSpec) {
	spec.Number = s.NextNumber(spec.Op)
	p.Confirm = Everything
	p.do(CreatePod{spec})
	p.replace(s, spec.Op)
}

// nodeUnfit reports whether the scheduler is to be asked for another node after a failed attempt. It is asked once.
func nodeUnfit(s *observed.Claim, failed observed.Attempt) bool {
	return forSelected(s, failed) && failedOnNode(failed) && failed.Pod.UID != s.Rescheduled
}

// forSelected reports whether the scheduler's choice decided where an attempt was to run. One that restores a
// node-local snapshot runs where that is.
func forSelected(s *observed.Claim, a observed.Attempt) bool {
	local := s.Config != nil && s.Config.NodeLocal
	bound := a.Pod.Annotations[contract.AnnNode] != ""

	return s.SelectedNode() != "" && (!local || bound)
}

// refusedBy is the node that could not serve the class. Provisioners whose storage is not node-local work on any node.
func refusedBy(s *observed.Claim) string {
	if s.Config == nil || !s.Config.NodeLocal {
		return ""
	}

	return s.SelectedNode()
}

// mayMove reports whether the next attempt may run on another node. Node-local storage that may exist keeps it.
func mayMove(s *observed.Claim, suspected bool) bool {
	anyNode := s.Config != nil && !s.Config.NodeLocal

	return !suspected || anyNode
}

// failedOnNode reports whether an attempt ended because of its node, and made nothing there.
func failedOnNode(a observed.Attempt) bool {
	neverPlaced := !a.Outcome.MayHaveRun && a.Pod.Spec.NodeName == ""

	return a.Outcome.Reason == podspec.ReasonNotHere || neverPlaced
}

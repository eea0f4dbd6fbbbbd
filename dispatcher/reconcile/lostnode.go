package reconcile

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// nodePeriod is how often it is looked whether a node is gone, or back. Nobody watches nodes.
const nodePeriod = 5 * time.Minute

// giveUp gives up the storage of a node that has been gone for as long as the class says, and reports whether nothing
// else is to be done. Since when it is gone, the volume says, so that no restart shortens or resets the time. Whatever
// is in the way of a removal is in the way of this, too.
func (p *Plan) giveUp(s *observed.Claim, deletes []observed.Attempt) (done bool) {
	if !s.AwaitsNode() {
		return false
	}

	p.Confirm = Everything // only then it is known whether the node exists
	p.RequeueBy(s.Now.Add(nodePeriod))

	since := s.NodeGoneSince()
	switch {
	case s.Node == observed.NodeExists && !since.IsZero():
		p.noteNode(s, SetNodeGone{})
		return false
	case s.Node != observed.NodeGone:
		return false
	case since.IsZero():
		p.noteNode(s, SetNodeGone{Since: s.Now})
		return false
	}

	early := p.waitsUntil(s, since.Add(s.Config.GiveUpAfter))
	if early {
		return false
	}

	if proof, reason, why := obstacles.Removal(s); proof == obstacles.NoProof {
		p.protect(s, nil, reason, why)
		return true
	}

	if running, ok := observed.Unfinished(deletes); ok {
		if running.Pod.Spec.NodeName != "" {
			return false // it had a node after all, and may have removed the storage
		}

		p.stop(running)

		return true
	}

	// The pods go first: without the volume they would look like attempts whose storage nobody keeps.
	if attempts := append(s.Of(contract.Provision), deletes...); len(attempts) > 0 {
		p.acknowledge(s, attempts...)
		return true
	}

	p.report(events.GivenUp(s.Volume, since))
	p.do(DeleteVolume{GivenUp: true})

	return true
}

// noteNode writes on the volume whether its node is gone, unless this dispatcher wrote a moment ago: what it reads may
// not show that yet.
func (p *Plan) noteNode(s *observed.Claim, note SetNodeGone) {
	early := p.waitsUntil(s, s.Repaired.Add(repairPeriod))
	if !early {
		p.do(note)
	}
}

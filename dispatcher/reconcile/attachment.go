package reconcile

import (
	"fmt"
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// connectorPeriod is how often it is looked whether a node has flex-node by now. Nobody watches CSINodes.
const connectorPeriod = 5 * time.Second

// decideAttachment says what to do about a VolumeAttachment.
//
// Its finalizer is the record: it is there before the first pod that attaches, and until one has detached. So
// Kubernetes gives the volume to no other node before this one has lost it.
func decideAttachment(s *observed.Claim) (p Plan) {
	of := s.Attachment
	switch {
	case of.Object == nil:
		p.withoutAttachment(s)
	case of.Object.DeletionTimestamp != nil:
		p.detach(s)
	case of.Object.Status.Attached:
		p.attached(s)
	default:
		p.attach(s)
	}

	p.endRetained(s)
	p.Forget = p.Forget && len(s.Retained) == 0
	p.letGo(s)

	return p
}

// attached is for a volume that its node can reach. Its pods are not needed any more.
func (p *Plan) attached(s *observed.Claim) {
	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.stopIfLate(s, running)
		return
	}

	late := p.awaitLate(s, s.Of(contract.Attach)) // until then they hold up a detach
	if len(s.Attempts) > 0 && !late {
		p.Confirm = Everything // by an old cache the proof would go
		p.acknowledge(s, s.Attempts...)
	}

	p.Forget = len(s.Attempts) == 0
}

// attach is for a volume that its node is to reach.
func (p *Plan) attach(s *observed.Claim) {
	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.await(s, running)
		p.sayAttachmentError(s)

		return
	}

	p.Confirm = Everything // the cache has no volume's source
	if s.Confirmed.IsZero() {
		return
	}

	newest, tried := observed.Last(s.Of(contract.Attach))
	needsNone := !tried && s.Attachment.Stager() == contract.StagerLoop // nobody has to let the node reach it
	switch {
	case needsNone, tried && newest.Outcome.Phase == podspec.Succeeded:
		p.do(SetAttached{})
		return
	case tried:
		p.reportFailure(s, newest)
	}

	reason, why := obstacles.ToAttach(s)
	delayed := tried && p.delayed(s, newest)
	switch {
	case reason != podspec.ReasonNone:
		p.attachmentWaits(s, reason, why)
		if reason == events.ReasonAttachWaits {
			p.RequeueBy(s.Now.Add(connectorPeriod))
		}
	case delayed:
		p.sayAttachmentError(s)
	case !s.Attachment.Kept():
		p.do(KeepAttachment{})
	default:
		p.sayAttachmentError(s)

		_, suspected := observed.Suspect(s.Of(contract.Attach))
		p.create(s, observed.AttemptSpec{Op: contract.Attach, Suspect: suspected})
	}
}

// detach is for a volume that is to be taken away from its node. What killed attempts asked for may come a minute
// later. So the finalizer stays for as long: else the volume could be taken away from a node that has it again.
func (p *Plan) detach(s *observed.Claim) {
	if !s.Attachment.Kept() {
		p.Forget = len(s.Attempts) == 0 // others keep it; what its pods prove is needed until it is gone
		return
	}

	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.awaitUnneeded(s, running)
		p.sayAttachmentError(s)

		return
	}

	p.Confirm = Everything
	attaches, detaches := s.Of(contract.Attach), s.Of(contract.Detach)
	newest, tried := observed.Last(detaches)
	_, suspected := observed.Suspect(attaches)
	nothing := !tried && !suspected && s.Attachment.Untouched()
	detached := tried && newest.Outcome.Phase == podspec.Succeeded
	switch {
	case nothing:
		p.do(ReleaseAttachment{})
	case detached && !newest.Misses(attaches):
		late := p.awaitLate(s, detaches)
		if !late {
			p.do(ReleaseAttachment{})
		}
	case detached:
		p.acknowledge(s, detaches...) // an attempt to attach ran beside it, which it may have missed
	default:
		p.startDetach(s, newest, tried)
	}
}

// startDetach starts a pod that takes the volume away from the node.
func (p *Plan) startDetach(s *observed.Claim, newest observed.Attempt, tried bool) {
	if tried {
		p.reportFailure(s, newest)
	}

	late := p.awaitLate(s, s.Of(contract.Attach))
	delayed := tried && p.delayed(s, newest)
	reason, why := obstacles.ToDetach(s)
	switch {
	case reason != podspec.ReasonNone:
		p.attachmentWaits(s, reason, why)
	case late, delayed:
		p.sayAttachmentError(s)
	default:
		p.sayAttachmentError(s)

		made, suspected := observed.Suspect(s.Of(contract.Attach))
		if !suspected {
			made = newest // its request is that of the attempt
		}

		_, suspect := observed.Suspect(s.Of(contract.Detach))
		p.create(s, observed.AttemptSpec{Op: contract.Detach, MadeBy: made.Pod, Suspect: suspect})
	}
}

// withoutAttachment is for pods whose VolumeAttachment is gone: a dispatcher that stalled created one too late, or
// somebody took the finalizer off. What it may have attached is detached, as long as there is the volume. If Kubernetes
// wants it on the node again, that is left to the end of the later VolumeAttachment: a detach would undo its work.
func (p *Plan) withoutAttachment(s *observed.Claim) {
	if len(s.Attempts) == 0 {
		p.Forget = true
		return
	}

	p.Confirm = Everything
	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.awaitUnneeded(s, running)
		return
	}

	attaches := s.Of(contract.Attach)
	newest, tried := observed.Last(s.Of(contract.Detach))
	_, suspected := observed.Suspect(attaches)
	ended := tried && newest.Outcome.Phase == podspec.Succeeded && !newest.Misses(attaches)
	later := s.Attachment.Successor
	switch {
	case s.Volume == nil, ended, !suspected && !tried, later != nil && later.Status.Attached:
		p.acknowledge(s, s.Attempts...)
		return
	case later != nil:
		p.RequeueBy(s.Now.Add(connectorPeriod))
		return
	}

	if tried && newest.Outcome.Phase == podspec.Succeeded {
		p.acknowledge(s, s.Of(contract.Detach)...)
		return
	}

	p.startDetach(s, newest, tried)
}

// attachmentWaits reports why no pod works on the attachment.
func (p *Plan) attachmentWaits(s *observed.Claim, reason podspec.Reason, why string) {
	node := s.AttachmentNode()
	p.report(events.AttachmentWaits(reason, node, fmt.Sprintf("node %s: %s", node, why)))
	p.sayAttachmentError(s)
}

// sayAttachmentError writes the plan's last warning into the VolumeAttachment's status, which Kubernetes shows on the
// pods that wait for the volume.
func (p *Plan) sayAttachmentError(s *observed.Claim) {
	message := p.lastWarning()
	if message != "" && s.Attachment.Object != nil && message != s.Attachment.Error() {
		p.do(SetAttachmentError{message})
	}
}

package reconcile

import (
	"k8s.io/apimachinery/pkg/api/resource"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// expand decides about the size of a bound volume. As the volume is the commit of a provision, its capacity is that of
// an expansion. It is written once a pod has said that the storage is so large, and only then the claim follows. So
// there are three sizes, and the smallest missing step is taken: what the storage has (a pod's exit code 0), what the
// volume says, and what the claim's status says.
//
// A size whose attempt ended without a word (killed, deadline) may have been reached. It is tried until an attempt
// knows, even where the user asks for less by now. Otherwise a quota could be had for nothing.
func (p *Plan) expand(s *observed.Claim, all attempts, expands []observed.Attempt) {
	capacity := observed.Capacity(s.Volume)
	newest, tried := observed.Last(expands)
	done := tried && newest.Outcome.Phase == podspec.Succeeded
	if done && newest.Size > capacity.Value() {
		p.do(SetCapacity{*resource.NewQuantity(newest.Size, resource.BinarySI)})
		return
	}

	if done {
		p.report(events.ExpansionSucceeded(s.Volume, newest.Pod, newest.Size,
			resize.LastStepOf(s.Volume) == resize.Kubelet))
	}

	target := targetSize(s, expands)
	reached := target.Cmp(capacity) <= 0
	p.acknowledge(s, all.deletes...)
	if status := followVolume(s, capacity, reached); status != nil {
		p.do(SetResizeStatus{status})
		return
	}

	if reached || resize.OnNode(s.Holder()) {
		if reached || done {
			p.acknowledge(s, expands...)
		}

		p.Forget = len(s.Attempts) == 0

		return
	}

	p.startExpansion(s, expands, target)
}

// targetSize is the size to reach: the claim's, or a larger one that an attempt may have reached.
func targetSize(s *observed.Claim, expands []observed.Attempt) resource.Quantity {
	asked := observed.Requested(s.Holder())

	newest, tried := observed.Last(expands)
	unclear := tried && newest.SizeUnclear()
	if unclear && newest.Size > asked.Value() {
		return *resource.NewQuantity(newest.Size, resource.BinarySI)
	}

	return asked
}

// followVolume is what the claim's status has to say of its volume's size, nil where it says so. reached reports
// whether the volume has the size to reach.
func followVolume(s *observed.Claim, capacity resource.Quantity, reached bool) *resize.Status {
	claim := s.Holder()
	has := claim.Status.Capacity[corev1.ResourceStorage]
	progress := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	switch {
	case has.Cmp(capacity) < 0 && resize.LastStepOf(s.Volume) == resize.Kubelet:
		if resize.OnNode(claim) || progress == corev1.PersistentVolumeClaimNodeResizeInfeasible {
			return nil
		}

		return resize.NodePending(claim, capacity)
	case has.Cmp(capacity) < 0, reached && resize.Marked(claim):
		return resize.Finished(claim, capacity)
	}

	return nil
}

// startExpansion starts the next attempt, or says why there is none.
func (p *Plan) startExpansion(s *observed.Claim, expands []observed.Attempt, target resource.Quantity) {
	switch reason, why := obstacles.ToExpand(s, target); reason {
	case podspec.ReasonNone:
	case events.ReasonExpansionRefused:
		p.report(events.ExpansionRefused(why))
		p.setResizeStatus(resize.Infeasible(s.Holder(), why))

		return
	default:
		p.report(events.ExpansionWaits(reason, why))
		return
	}

	status := resize.InProgress(s.Holder(), target)
	newest, tried := observed.Last(expands)
	if tried && newest.Outcome.Phase == podspec.Failed {
		failing, waits := p.failedExpansion(s, newest, target)
		if waits {
			p.setResizeStatus(failing)
			return
		}

		if failing != nil {
			status = failing
		}
	}

	p.setResizeStatus(status)
	p.create(s, observed.AttemptSpec{Op: contract.Expand, Size: target.Value(), Suspect: tried && newest.SizeUnclear()})
}

// failedExpansion reports how the last attempt failed. failing is what the claim's status has to say of it, nil for
// nothing. waits reports whether the next attempt is still to wait.
func (p *Plan) failedExpansion(
	s *observed.Claim, newest observed.Attempt, target resource.Quantity,
) (failing *resize.Status, waits bool) {
	e, known := failure(s, newest)
	if known {
		p.report(e)
	}

	if newest.Size != target.Value() {
		return nil, false
	}

	if known {
		failing = resize.Failing(s.Holder(), target, newest.Outcome.Reason == podspec.ReasonRefused, e.Message)
	}

	return failing, p.delayed(s, newest)
}

func (p *Plan) setResizeStatus(status *resize.Status) {
	if status != nil {
		p.do(SetResizeStatus{status})
	}
}

// awaitExpansion is for an expansion that has not ended. Nothing else starts beside it. One that nobody needs any more
// is stopped, if it certainly does not run.
func (p *Plan) awaitExpansion(s *observed.Claim, a observed.Attempt) {
	stuck := a.Outcome.Reason != podspec.ReasonNone && a.Outcome.Phase == podspec.Starting
	idle := a.Pod.Spec.NodeName == "" || stuck
	wanted := s.Expandable()
	switch {
	case idle && (!wanted || withdrawn(s, a)):
		p.stop(a)
	case !wanted:
		p.stopIfLate(s, a)
	default:
		p.await(s, a)
	}
}

// withdrawn reports whether the claim asks for less by now than the expansion is to reach. One that follows an attempt
// which may have reached the size is wanted all the same, as targetSize has it: without it nobody knows the size.
func withdrawn(s *observed.Claim, a observed.Attempt) bool {
	asked := observed.Requested(s.Holder())
	return a.Size > asked.Value() && a.Pod.Annotations[contract.AnnSuspect] == ""
}

// reportLostRecord says that nobody removes, or expands, the storage of a volume that does not say whose it is.
func (p *Plan) reportLostRecord(s *observed.Claim) {
	why := obstacles.LostRecord(s)
	p.report(events.RecordLost(why))
	if s.AsksForMore() {
		p.report(events.ExpansionWaits(events.ReasonRecord, why))
	}
}

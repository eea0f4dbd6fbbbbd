package reconcile

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// remove starts the removal of the volume's storage. The volume is deleted once a pod has removed it.
func (p *Plan) remove(s *observed.Claim, deletes []observed.Attempt) {
	newest, ok := observed.Last(deletes)
	if s.Released() && (s.Claim != nil || s.Other != nil) {
		// The cache may show a claim that is gone, and an event would say that it keeps the storage.
		p.Confirm = Everything
	}

	givesUp := p.giveUp(s, deletes)
	if givesUp {
		return
	}

	switch {
	case !ok:
		late := p.awaitLate(s, s.Of(contract.Provision))
		if !late {
			p.startDelete(s, nil, "")
		}
	case !newest.Outcome.Final():
		p.await(s, newest)
	case !newest.ForVolume(s.Volume):
		p.acknowledge(s, deletes...) // they are for an earlier volume of the same name
	default:
		p.reportFailure(s, newest)

		delayed := p.delayed(s, newest)
		if !delayed {
			p.startDelete(s, nil, "")
		}
	}
}

// afterDelete is for delete pods without a volume. They removed the storage of a volume that is gone by now, or undo
// attempts that came to no volume. Either comes to its end before anything else.
func (p *Plan) afterDelete(s *observed.Claim, all attempts) {
	if running, ok := observed.Unfinished(all.deletes); ok {
		p.await(s, running)
		return
	}

	// A former leader may save the record of a delete on which the current one has acted already. The provision that
	// followed the delete ends first.
	if running, ok := observed.Unfinished(all.provisions); ok {
		p.awaitProvision(s, running)
		return
	}

	if obstacles.Kept(s) {
		p.Confirm = Everything
		p.acknowledge(s, append(all.provisions, all.deletes...)...)

		return
	}

	newest, _ := observed.Last(all.deletes)
	made, suspected := observed.Suspect(all.provisions)
	if newest.Outcome.Phase != podspec.Succeeded {
		p.reportFailure(s, newest)

		delayed := p.delayed(s, newest)
		if delayed {
			return
		}

		if !suspected {
			made = newest // its request is that of the attempt
		}

		p.startDelete(s, made.Pod, made.Node())

		return
	}

	if newest.Misses(all.provisions) {
		p.acknowledge(s, all.deletes...) // the attempt ran beside the undo, which may have come too early
		return
	}

	if newest.Pod.Annotations[contract.AnnVolumeUID] == "" && s.ClaimLives() {
		p.report(events.Undone(newest.Pod))
	}

	// A volume that the cache does not show yet would be left without the pods that made it.
	p.Confirm = Volume

	// The proof goes last.
	ended := append(all.provisions, all.deletes...)

	if s.Pending() {
		p.acknowledgeKeepingNames(s, ended...)
	} else {
		p.acknowledge(s, ended...)
	}
}

// awaitLate puts off what must not come before a storage system has carried out the last requests of killed attempts.
// Storage that is made after a delete would belong to nobody.
func (p *Plan) awaitLate(s *observed.Claim, provisions []observed.Attempt) (waits bool) {
	return p.waitsUntil(s, s.LateUntil(provisions))
}

// undo starts the removal of what attempts may have made that came to no volume. made is the oldest of them.
func (p *Plan) undo(s *observed.Claim, provisions []observed.Attempt, made observed.Attempt) {
	late := p.awaitLate(s, provisions)
	if !late {
		p.startDelete(s, made.Pod, made.Node())
	}
}

// startDelete starts a delete pod by a proof that the storage may be removed: that of the volume, or without one what
// the attempt of the pod madeBy may have made.
func (p *Plan) startDelete(s *observed.Claim, madeBy *corev1.Pod, node string) {
	proof, reason, why := obstacles.Removal(s)
	if proof == obstacles.NoProof {
		if s.Volume == nil && reason == events.ReasonHeld {
			p.Confirm = Everything // the caches of pods and of records may show a part of what has ended
		}

		detaches := p.awaitDetach(s, reason)
		if !detaches {
			p.protect(s, madeBy, reason, why)
		}

		if s.Released() {
			p.acknowledge(s, s.Of(contract.Provision)...) // the volume is their outcome, whoever keeps it
		}

		return
	}

	reason, why = obstacles.ToPod(s)
	if reason != podspec.ReasonNone {
		p.reportDeletionWaits(s, madeBy, reason, why)
		return
	}

	if _, repaired := Find[RepairVolume](*p); repaired {
		return // the volume comes back with the identity that it has to have
	}

	found := p.storageFound(s, madeBy)
	if !found {
		return
	}

	// The binder takes no volume that is being deleted, so that nobody can use it from now on.
	if proof == obstacles.NeverUsed && s.Volume.DeletionTimestamp == nil {
		p.do(RetractVolume{})
	}

	if !s.Config.NodeLocal {
		node = ""
	}

	p.create(s, observed.AttemptSpec{Op: contract.Delete, MadeBy: madeBy, Node: node})
}

// detachGrace is how long a node may take to be rid of a released volume. A claim is often deleted with its pod.
const detachGrace = 10 * time.Second

// awaitDetach puts off what is to be said of a released volume that a node still has.
func (p *Plan) awaitDetach(s *observed.Claim, reason podspec.Reason) (waits bool) {
	if reason != events.ReasonStillAttached {
		return false
	}

	return p.waitsUntil(s, podspec.ReleasedAt(s.Volume).Add(detachGrace))
}

// storageFound reports whether a delete pod would find the storage. Otherwise the storage stays, and an event says why.
func (p *Plan) storageFound(s *observed.Claim, madeBy *corev1.Pod) bool {
	if s.Volume != nil {
		if _, doubt := s.VolumeIdentity(); doubt != "" {
			p.protect(s, madeBy, events.ReasonRecord, doubt)
			return false
		}
	}

	switch reason, why := obstacles.ToStorage(s, contract.Delete, madeBy); reason {
	case podspec.ReasonNone:
		return true
	case events.ReasonMountNotBound: // no record says where the storage is: what the class mounts now is not there
		p.reportDeletionWaits(s, madeBy, reason, why)
	default:
		p.protect(s, madeBy, reason, why)
	}

	return false
}

// protect leaves storage where it is, and says why.
func (p *Plan) protect(s *observed.Claim, madeBy *corev1.Pod, reason podspec.Reason, why string) {
	p.ProtectedBy = reason
	p.reportDeletionWaits(s, madeBy, reason, why)
	if reason == events.ReasonLimit || reason == events.ReasonStillAttached || s.SameStorage != nil {
		// The period of the limit, the other volume, or an attachment that no cache has shown ends without a change
		// here.
		p.RequeueBy(s.Now.Add(longestDelay))
	}
}

func (p *Plan) reportDeletionWaits(s *observed.Claim, madeBy *corev1.Pod, reason podspec.Reason, why string) {
	removes := contract.Delete
	if s.Snapshot != nil {
		removes = contract.DeleteSnapshot
	}

	p.report(events.DeletionWaits(events.For(removes, s.Holder(), s.Volume), madeBy, reason, why))
}

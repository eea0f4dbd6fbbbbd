package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// remove orders the removal of the volume's storage. The volume is deleted once a pod has done that.
func (p *Plan) remove(s *snapshot.Snapshot, deletes []snapshot.Attempt) {
	newest, ok := snapshot.Last(deletes)
	if s.Released() && (s.Claim != nil || s.Other != nil) {
		p.Confirm = Everything // the cache may show a claim that is gone, and an event would say that it keeps the storage
	}
	switch {
	case !ok:
		if !p.awaitLate(s, s.Of(contract.Provision)) {
			p.orderDelete(s, nil, "")
		}
	case !newest.Outcome.Final():
		p.await(s, newest)
	case !newest.ForVolume(s.Volume):
		p.cleanUp(s, deletes...) // they are for an earlier volume of the same name
	default:
		p.recordFailure(s, newest)
		if !p.delayed(s, newest) {
			p.orderDelete(s, nil, "")
		}
	}
}

// afterDelete is for delete pods without a volume. They removed the storage of a volume that is gone by now, or undo attempts that
// came to no volume. Either comes to its end before anything else.
func (p *Plan) afterDelete(s *snapshot.Snapshot, all attempts) {
	if running, ok := snapshot.Unfinished(all.deletes); ok {
		p.await(s, running)
		return
	}
	if obstacles.Kept(s) {
		p.Confirm = Everything
		p.cleanUp(s, append(all.provisions, all.deletes...)...)
		return
	}

	newest, _ := snapshot.Last(all.deletes)
	made, suspected := snapshot.Suspect(all.provisions)
	if newest.Outcome.Phase != podspec.Succeeded {
		p.recordFailure(s, newest)
		if p.delayed(s, newest) {
			return
		}
		record := newest
		if suspected {
			record = made
		}
		p.orderDelete(s, record.Pod, record.Node())
		return
	}
	if _, ok := snapshot.Unfinished(all.provisions); ok {
		return
	}
	if newest.Misses(all.provisions) {
		p.cleanUp(s, all.deletes...) // the attempt ran beside the undo, which may have come too early
		return
	}
	if newest.Pod.Annotations[contract.AnnVolumeUID] == "" && s.ClaimLives() {
		p.record(events.Undone(newest.Pod))
	}
	p.Confirm = Volume                              // one that the cache does not show yet would be left without a record
	ended := append(all.provisions, all.deletes...) // the proof goes last
	if s.Pending() {
		p.cleanUpKeepingNames(s, ended...)
	} else {
		p.cleanUp(s, ended...)
	}
}

// awaitLate puts off what must not come before a storage system has done what killed attempts asked it for: storage that is made after
// that would belong to nobody.
func (p *Plan) awaitLate(s *snapshot.Snapshot, provisions []snapshot.Attempt) (waits bool) {
	return p.waitsUntil(s, s.LateUntil(provisions))
}

// undo orders the removal of what attempts may have made that came to no volume. made is the oldest of them.
func (p *Plan) undo(s *snapshot.Snapshot, provisions []snapshot.Attempt, made snapshot.Attempt) {
	if !p.awaitLate(s, provisions) {
		p.orderDelete(s, made.Pod, made.Node())
	}
}

// orderDelete orders a delete pod by a proof that the storage may be removed: that of the volume, or without one what the record's attempt
// may have made.
func (p *Plan) orderDelete(s *snapshot.Snapshot, record *corev1.Pod, node string) {
	proof, reason, why := obstacles.Removal(s)
	if proof == obstacles.NoProof {
		p.protect(s, record, reason, why)
		if s.Released() {
			p.cleanUp(s, s.Of(contract.Provision)...) // the volume is their outcome, whoever keeps it
		}
		return
	}
	if reason, why := obstacles.ToPod(s); reason != podspec.ReasonNone {
		p.recordDeletionWaits(s, record, reason, why)
		return
	}
	if _, repaired := Find[RepairVolume](*p); repaired {
		return // the volume comes back with the identity that it has to have
	}
	if s.Volume != nil {
		if _, doubt := s.VolumeIdentity(); doubt != "" {
			p.protect(s, record, events.ReasonRecord, doubt)
			return
		}
	}
	switch reason, why := obstacles.ToStorage(s, contract.Delete, record); reason {
	case podspec.ReasonNone:
	case events.ReasonMountNotBound: // no record says where the storage is: what the class mounts now is not there
		p.recordDeletionWaits(s, record, reason, why)
		return
	default:
		p.protect(s, record, reason, why)
		return
	}
	if !s.Config.NodeLocal {
		node = ""
	}
	// The binder takes no volume that is being deleted, so that nobody can use it from now on.
	if proof == obstacles.NeverUsed && s.Volume.DeletionTimestamp == nil {
		p.do(RetractVolume{})
	}
	p.create(s, snapshot.Order{Op: contract.Delete, Record: record, Node: node})
}

// protect leaves storage where it is, and says why.
func (p *Plan) protect(s *snapshot.Snapshot, record *corev1.Pod, reason podspec.Reason, why string) {
	p.ProtectedBy = reason
	p.recordDeletionWaits(s, record, reason, why)
	if reason == events.ReasonLimit {
		p.RequeueBy(s.Now.Add(longestDelay)) // the period of the limit ends without a change
	}
}

func (p *Plan) recordDeletionWaits(s *snapshot.Snapshot, record *corev1.Pod, reason podspec.Reason, why string) {
	p.record(events.DeletionWaits(events.For(contract.Delete, s.Holder(), s.Volume), record, reason, why))
}

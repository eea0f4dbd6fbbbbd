package reconcile

import (
	"slices"
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// decideSnapshot says what to do about a snapshot.
//
// The content is the record: it exists before the first pod, and until the snapshot is gone or is to stay. So nothing
// that an attempt may have made is ever without an object, and a removal needs no undo of its own.
func decideSnapshot(s *observed.Claim) (p Plan) {
	of := s.Snapshot
	switch {
	case of.Unserved:
		p.RequeueBy(s.Now.Add(unservedPeriod))
		return p
	case of.Content == nil:
		p.withoutContent(s)
	case of.Content.Spec.Driver != of.Driver:
		p.Forget = len(s.All()) == 0
	case of.Content.DeletionTimestamp != nil:
		p.removeSnapshot(s)
	default:
		p.withContent(s)
	}

	p.endRetained(s)
	p.Forget = p.Forget && len(s.Retained) == 0
	p.keepRecords(s)

	return p
}

const (
	// unservedPeriod is how often it is looked whether the objects of snapshots can be read.
	unservedPeriod = 5 * time.Second
	// protectionGrace is how long the snapshot-controller may take to look after a VolumeSnapshot.
	protectionGrace = 5 * time.Second
)

// withoutContent is for a VolumeSnapshot that has no content yet, and for pods whose content is gone.
func (p *Plan) withoutContent(s *observed.Claim) {
	if s.Snapshot.Asks() {
		p.beginSnapshot(s)
		return
	}

	if len(s.Attempts) == 0 {
		p.Forget = true
		return
	}

	p.Confirm = Everything
	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.await(s, running)
		return
	}

	deletes, snapshots := s.Of(contract.DeleteSnapshot), s.Of(contract.Snapshot)
	newest, deleted := observed.Last(deletes)
	removed := deleted && newest.Outcome.Phase == podspec.Succeeded && !newest.Misses(snapshots)
	if made, ok := madeSnapshot(snapshots); ok && !removed {
		p.report(events.SnapshotLeft(podspec.SnapshotName(s.UID), made.Pod))
	}

	p.acknowledge(s, s.Attempts...)
}

// madeSnapshot is an attempt that made a snapshot, or may have.
func madeSnapshot(snapshots []observed.Attempt) (observed.Attempt, bool) {
	for _, a := range snapshots {
		if a.Outcome.Phase == podspec.Succeeded {
			return a, true
		}
	}

	return observed.Suspect(snapshots)
}

// beginSnapshot makes the content of a VolumeSnapshot.
func (p *Plan) beginSnapshot(s *observed.Claim) {
	if !s.Snapshot.Protected() {
		patient := p.waitsUntil(s, s.Snapshot.Request.CreationTimestamp.Add(protectionGrace))
		if !patient {
			p.report(events.SnapshotWaits(events.OnSnapshot, events.ReasonSnapshotWaits, "the snapshot-controller has "+
				"not put its finalizer on the VolumeSnapshot: see that it runs"))
		}

		return
	}

	if taken := s.Snapshot.Taken; taken != nil {
		p.report(events.SnapshotWaits(events.OnSnapshot, events.ReasonRecord, "VolumeSnapshotContent "+taken.Name+
			" has the name of this snapshot's, and is not for it: delete it"))

		return
	}

	if reason, why := obstacles.ToSnapshot(s); reason != podspec.ReasonNone {
		p.Blocked = reason == events.ReasonSnapshotRefused || reason == events.ReasonSnapshotWaits
		p.report(events.SnapshotWaits(events.OnSnapshot, reason, why))

		return
	}

	p.Confirm = Everything
	p.do(CreateContent{})
}

// withContent is for a content that is not being deleted.
func (p *Plan) withContent(s *observed.Claim) {
	of := s.Snapshot
	switch {
	case podspec.ContentReady(of.Content):
		p.finishSnapshot(s)
		return
	case of.ByHand():
		p.importSnapshot(s)
		return
	case of.Unrecorded() && len(s.Attempts) == 0:
		p.recordSnapshot(s)
		return
	}

	snapshots := s.Of(contract.Snapshot)
	running, runs := observed.Unfinished(s.Attempts)
	switch {
	case runs && of.Request == nil:
		p.awaitUnneeded(s, running)
		return
	case runs:
		p.await(s, running)
		return
	}

	newest, tried := observed.Last(snapshots)
	if tried && newest.Outcome.Phase == podspec.Succeeded {
		// Whoever sees that the snapshot is ready may change the content at once. So that is written last.
		marked := of.Content.Annotations[contract.AnnBeingCreated] != ""
		if marked {
			p.do(FinishContent{})
		}

		p.Confirm = Everything
		p.do(SetContentReady{At: takenAt(s, newest), Size: restoreSize(s)})
		p.report(events.SnapshotTaken(podspec.HandleOf(of.Content), newest.Pod))

		return
	}

	if why := obstacles.InvalidContent(s); why != "" {
		p.snapshotWaits(s, events.ReasonRecord, why)
		return
	}

	p.takeSnapshot(s, newest, tried)
}

// recordSnapshot is for a content that the snapshot-controller made, as it does for volumes of the type csi. It gets
// what one of the dispatcher's has from the beginning.
func (p *Plan) recordSnapshot(s *observed.Claim) {
	if reason, why := obstacles.ToSnapshot(s); reason != podspec.ReasonNone {
		p.snapshotWaits(s, reason, why)
		return
	}

	p.Confirm = Everything
	p.do(RecordContent{})
}

// takeSnapshot starts the next attempt once it is due. The status says the last warning alone: two would replace each
// other for ever.
func (p *Plan) takeSnapshot(s *observed.Claim, newest observed.Attempt, tried bool) {
	if tried {
		p.reportFailure(s, newest)
	}

	wanted := s.Snapshot.Request != nil
	if !wanted {
		p.Confirm = Everything // the cache may not show it
	}

	delayed := wanted && tried && p.delayed(s, newest)
	reason, why := obstacles.ToTakeSnapshot(s)
	switch {
	case delayed:
		p.sayError(s)
	case reason != podspec.ReasonNone:
		p.snapshotWaits(s, reason, why)
	default:
		p.sayError(s)

		_, suspected := observed.Suspect(s.Of(contract.Snapshot))
		p.create(s, observed.AttemptSpec{Op: contract.Snapshot, Suspect: suspected})
	}
}

// takenAt is a time that is not after the moment of the snapshot: what is written later is not in it.
func takenAt(s *observed.Claim, a observed.Attempt) time.Time {
	if started := s.Started(a); !started.IsZero() {
		return started
	}

	return a.Pod.CreationTimestamp.Time
}

// restoreSize is the size of the volume that the snapshot is of, 0 where it is not known. The volume may have grown
// since it was recorded.
func restoreSize(s *observed.Claim) int64 {
	if s.Volume == nil {
		return 0
	}

	size := observed.Capacity(s.Volume)
	if now := s.Snapshot.Source; now != nil && now.Name == s.Volume.Name {
		grown := observed.Capacity(now)
		return max(size.Value(), grown.Value())
	}

	return size.Value()
}

// snapshotWaits reports why no pod takes a snapshot.
func (p *Plan) snapshotWaits(s *observed.Claim, reason podspec.Reason, why string) {
	p.Blocked = reason == events.ReasonSnapshotRefused
	p.report(events.SnapshotWaits(events.OnSnapshot, reason, why))
	p.sayError(s)
}

// sayError writes the plan's last warning into the content's status, once.
func (p *Plan) sayError(s *observed.Claim) {
	message := p.lastWarning()
	if message != "" && message != observed.ContentError(s.Snapshot.Content) {
		p.do(SetContentError{message})
	}
}

// lastWarning is what the plan's last warning says, empty for none.
func (p *Plan) lastWarning() string {
	for _, e := range slices.Backward(p.Events) {
		if e.Warning {
			return podspec.EventMessage(e.Message)
		}
	}

	return ""
}

// finishSnapshot is for a snapshot that exists. Its pods are not needed any more.
func (p *Plan) finishSnapshot(s *observed.Claim) {
	of := s.Snapshot
	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.stopIfLate(s, running)
		return
	}

	created := of.Content.Annotations[contract.AnnBeingCreated] != "" && !of.ByHand()
	if created {
		p.do(FinishContent{})
	}

	if len(s.Attempts) > 0 {
		p.Confirm = Everything // by an old cache the proof would go
		p.acknowledge(s, s.Attempts...)
	}

	left := of.Left()
	if left {
		p.Confirm = Everything
		p.report(events.ContentLeft(of.Content.Name))
	}

	p.Forget = len(s.Attempts) == 0 && !created && !left
}

// importSnapshot is for a content that an administrator, or a backup tool, made for a snapshot that exists. Nobody asks
// the backend. A restore finds out.
func (p *Plan) importSnapshot(s *observed.Claim) {
	if why := obstacles.InvalidContent(s); why != "" {
		p.snapshotWaits(s, events.ReasonRecord, why)
		return
	}

	p.do(SetContentReady{At: s.Snapshot.Content.CreationTimestamp.Time, Size: restoreSize(s)})
}

// removeSnapshot is for a content that is being deleted.
func (p *Plan) removeSnapshot(s *observed.Claim) {
	of := s.Snapshot
	if !of.Kept() {
		p.Forget = len(s.Attempts) == 0 // others keep it; what its pods prove is needed until it is gone
		return
	}

	if running, ok := observed.Unfinished(s.Attempts); ok {
		p.awaitUnneeded(s, running)
		return
	}

	deletes, snapshots := s.Of(contract.DeleteSnapshot), s.Of(contract.Snapshot)
	_, suspected := madeSnapshot(snapshots)
	unmade := podspec.ContentUnmade(of.Content) || podspec.ContentUntouched(of.Content) && of.Released()
	nothing := len(deletes) == 0 && !suspected && unmade

	p.Confirm = Everything
	if of.Retained() || nothing {
		p.acknowledge(s, s.Attempts...)
		if len(s.Attempts) == 0 {
			p.do(ReleaseContent{})
		}

		return
	}

	newest, tried := observed.Last(deletes)
	switch {
	case tried && newest.Outcome.Phase == podspec.Succeeded && !newest.Misses(snapshots):
		p.do(ReleaseContent{})
	case tried && newest.Outcome.Phase == podspec.Succeeded:
		p.acknowledge(s, deletes...) // a snapshot was taken beside it, which it may have missed
	default:
		p.deleteSnapshot(s, newest, tried)
	}
}

// awaitUnneeded is for a pod of an object that is being deleted, or is gone. One that makes what nobody asks for any
// more is stopped if it certainly does not run.
func (p *Plan) awaitUnneeded(s *observed.Claim, a observed.Attempt) {
	stuck := a.Outcome.Reason != podspec.ReasonNone && a.Outcome.Phase == podspec.Starting
	idle := a.Pod.Spec.NodeName == "" || stuck
	makes := a.Op == contract.Snapshot || a.Op == contract.Attach
	if makes && idle {
		p.Confirm = Everything
		p.stop(a)

		return
	}

	p.await(s, a)
}

// deleteSnapshot starts a pod that removes the snapshot, by a proof that it may be removed.
func (p *Plan) deleteSnapshot(s *observed.Claim, newest observed.Attempt, tried bool) {
	if tried {
		p.reportFailure(s, newest)
	}

	proof, reason, why := obstacles.SnapshotRemoval(s)
	if proof == obstacles.NoProof {
		p.protectSnapshot(s, reason, why)
		return
	}

	waits := p.awaitLate(s, s.Of(contract.Snapshot))
	if !waits && tried {
		waits = p.delayed(s, newest)
	}

	if waits {
		return
	}

	if reason, why = obstacles.ToRemoveSnapshot(s); reason != podspec.ReasonNone {
		p.reportDeletionWaits(s, nil, reason, why)
		return
	}

	p.create(s, observed.AttemptSpec{Op: contract.DeleteSnapshot})
}

// protectSnapshot leaves a snapshot where it is, and says why: also to a user whose VolumeSnapshot waits for it, by the
// status, which the snapshot-controller copies. Another content, and a pod that was expected and never created, end
// without a change here.
func (p *Plan) protectSnapshot(s *observed.Claim, reason podspec.Reason, why string) {
	p.protect(s, nil, reason, why)
	if s.Snapshot.Request != nil && !podspec.ContentReady(s.Snapshot.Content) {
		p.sayError(s)
	}

	if reason == events.ReasonCopied || s.Snapshot.Twin != nil {
		p.RequeueBy(s.Now.Add(longestDelay))
	}
}

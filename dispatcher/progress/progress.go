package progress

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Progress is the operation that a claim waits for, and how far it has come.
type Progress struct {
	// Operation is one of the contract's, or Undo. It is empty where nothing is to be done, and so are the others.
	Operation string
	Phase     Phase
	// Since is when the wait for the operation began, zero where nobody knows.
	Since time.Time
	// Attempt is the newest one. Tried says that there is one.
	Attempt observed.Attempt
	Tried   bool
}

// Phase is how far an operation has come.
type Phase string

// Phases.
const (
	// Waiting: no attempt has been made, or something keeps the next one.
	Waiting Phase = "Waiting"
	// Starting and Running: a pod works on it, or is about to.
	Starting Phase = "Starting"
	Running  Phase = "Running"
	// Failed: the last attempt failed, and the next one has its time.
	Failed Phase = "Failed"
	// Held: storage that is to be removed waits for an administrator.
	Held Phase = "Held"
	// Blocked: no attempt is made until the author of the claim or VolumeSnapshot changes something.
	Blocked Phase = "Blocked"
)

// Undo is the removal of what attempts may have made that came to no volume.
const Undo = "undo"

// Of is the claim's progress, by a plan that was made from its state.
func Of(s *observed.Claim, p reconcile.Plan) (now Progress) {
	now.Operation, now.Since = operation(s)
	now.Attempt, now.Tried = AttemptOf(s, now.Operation)
	switch {
	case now.Operation == "":
	case now.Tried && now.Attempt.Outcome.Phase == podspec.Starting:
		now.Phase = Starting
	case now.Tried && !now.Attempt.Outcome.Final():
		now.Phase = Running
	case p.ProtectedBy != podspec.ReasonNone:
		now.Phase = Held
	case p.Blocked:
		now.Phase = Blocked
	case !p.NextAttempt.IsZero():
		now.Phase = Failed
	default:
		now.Phase = Waiting
	}

	return now
}

// Served reports whether an operation that an earlier reconciliation waited for is done.
func Served(s *observed.Claim, op string) bool {
	switch op {
	case string(contract.Attach), string(contract.Detach):
		return attachmentServed(s.Attachment, op)
	case string(contract.Snapshot):
		return s.Snapshot != nil && s.Snapshot.Content != nil && podspec.ContentReady(s.Snapshot.Content)
	case string(contract.DeleteSnapshot):
		return s.Snapshot == nil || s.Snapshot.Content == nil
	case string(contract.Provision):
		return s.ClaimLives() && s.Claim.Spec.VolumeName == podspec.VolumeName(s.UID)
	case string(contract.Delete):
		return s.Volume == nil && s.Foreign == nil
	case string(contract.Expand):
		now, _ := operation(s)
		return s.Expandable() && now == ""
	}

	return false
}

func attachmentServed(of *observed.Attachment, op string) bool {
	exists := of != nil && of.Object != nil
	if op == string(contract.Attach) {
		return exists && of.Object.Status.Attached
	}

	return !exists || !of.Kept()
}

// operation is what is to be done for the claim, and since when.
func operation(s *observed.Claim) (op string, since time.Time) {
	switch {
	case s.Snapshot != nil:
		return snapshotOperation(s.Snapshot)
	case s.Attachment != nil:
		return attachmentOperation(s.Attachment)
	case s.Volume == nil:
		return operationWithoutVolume(s, s.Of(contract.Provision))
	}

	return operationWithVolume(s, s.Of(contract.Provision))
}

func operationWithVolume(s *observed.Claim, provisions []observed.Attempt) (op string, since time.Time) {
	claim, v := s.Holder(), s.Volume
	retracted := v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound
	waits := s.ClaimLives() && claim == s.Claim && claim.Spec.VolumeName == ""
	switch {
	case s.Released() || retracted:
		return string(contract.Delete), releasedAt(v)
	case s.Pending():
		return string(contract.Provision), wantedSince(s, provisions)
	case claim != nil && claim.DeletionTimestamp != nil:
		return string(contract.Delete), claim.DeletionTimestamp.Time
	case waits && !podspec.Bound(claim, v):
		return string(contract.Provision), wantedSince(s, provisions)
	case s.Expandable() && expands(s), s.RecordLost() && s.AsksForMore():
		return string(contract.Expand), expandsSince(s)
	}

	return "", since
}

// snapshotOperation is operation for a snapshot.
func snapshotOperation(of *observed.Snapshot) (op string, since time.Time) {
	content := of.Content
	switch {
	case content == nil && of.Asks():
		return string(contract.Snapshot), of.Request.CreationTimestamp.Time
	case content == nil || !observed.DueContent(content, of.Driver):
		return "", since
	case content.DeletionTimestamp != nil:
		return string(contract.DeleteSnapshot), content.DeletionTimestamp.Time
	case of.Request != nil:
		return string(contract.Snapshot), of.Request.CreationTimestamp.Time
	}

	return string(contract.Snapshot), content.CreationTimestamp.Time
}

// attachmentOperation is operation for a VolumeAttachment.
func attachmentOperation(of *observed.Attachment) (op string, since time.Time) {
	switch {
	case of.Object == nil || !observed.DueAttachment(of.Object):
		return "", since
	case of.Object.DeletionTimestamp != nil:
		return string(contract.Detach), of.Since()
	}

	return string(contract.Attach), of.Since()
}

// operationWithoutVolume is operation where no volume exists. Pods of an undo that has succeeded prove only that
// storage is gone: the undo is over.
func operationWithoutVolume(s *observed.Claim, provisions []observed.Attempt) (op string, since time.Time) {
	deletes := s.Of(contract.Delete)
	newest, deleted := observed.Last(deletes)
	done := deleted && newest.Outcome.Phase == podspec.Succeeded
	left := len(provisions) > 0 && (!done || newest.Misses(provisions))
	switch {
	case deleted && !done:
		return Undo, deletes[0].Pod.CreationTimestamp.Time
	case s.Pending():
		return string(contract.Provision), wantedSince(s, provisions)
	case left:
		return Undo, s.Ended(provisions[len(provisions)-1])
	}

	return "", since
}

// wantedSince is when the claim was made. A claim of a class that waits for the first consumer may have waited for that
// before: there it is when the dispatcher was first seen to know of it.
func wantedSince(s *observed.Claim, provisions []observed.Attempt) time.Time {
	if !s.WaitsForConsumer() {
		return s.Claim.CreationTimestamp.Time
	}

	since := s.WantedSince
	for _, a := range provisions {
		if created := a.Pod.CreationTimestamp.Time; since.IsZero() || created.Before(since) {
			since = created
		}
	}

	if since.IsZero() {
		return s.Claim.CreationTimestamp.Time
	}

	return since
}

func releasedAt(v *corev1.PersistentVolume) time.Time {
	switch {
	case v.Status.Phase == corev1.VolumeReleased && v.Status.LastPhaseTransitionTime != nil:
		return v.Status.LastPhaseTransitionTime.Time
	case v.DeletionTimestamp != nil:
		return v.DeletionTimestamp.Time
	}

	return v.CreationTimestamp.Time
}

// expands reports whether the claim asks for more than its volume has, or an expansion is on record: in its status, or
// by a pod.
func expands(s *observed.Claim) bool {
	return s.AsksForMore() || resize.Marked(s.Holder()) || len(s.Of(contract.Expand)) > 0
}

// expandsSince is when the oldest condition of the claim's status that is about the expansion began, zero for none.
func expandsSince(s *observed.Claim) (since time.Time) {
	for _, c := range s.Holder().Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimResizing ||
			c.Type == corev1.PersistentVolumeClaimControllerResizeError {
			if since.IsZero() || c.LastTransitionTime.Time.Before(since) {
				since = c.LastTransitionTime.Time
			}
		}
	}

	return since
}

// AttemptOf is the newest attempt of the operation, or of one that has not ended.
func AttemptOf(s *observed.Claim, op string) (observed.Attempt, bool) {
	if running, ok := observed.Unfinished(s.Attempts); ok {
		return running, true
	}

	of := contract.Operation(op)
	if op == Undo {
		of = contract.Delete
	}

	return s.Latest(of)
}

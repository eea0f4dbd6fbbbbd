package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Plan is what to do about one claim now.
type Plan struct {
	// Confirm says what has to be read from the API server, and the plan made again, before anything is done.
	Confirm Confirmation
	// Events are recorded first.
	Events []events.Event
	// Actions are carried out in order. Each may be the last before the process dies.
	Actions []Action
	// ProtectedBy is why storage that is to be removed waits for an administrator, or empty.
	ProtectedBy podspec.Reason
	// Blocked reports whether no attempt is made until the author of the claim or VolumeSnapshot, or that of the claim
	// that it is made from, changes something.
	Blocked bool
	// Forget reports whether nothing is left to do for the claim.
	Forget bool
	// RequeueAt is when the claim is requeued without a change; zero for never.
	RequeueAt time.Time
	// NextAttempt is when the delay after a failed attempt ends, zero where the next attempt waits for something else.
	NextAttempt time.Time
}

// Confirmation is what a plan relies on that a cache may show too late.
type Confirmation int

// Confirmations.
const (
	// Nothing has to be confirmed.
	Nothing Confirmation = iota
	// Volume: that no volume exists.
	Volume
	// Everything: claim, volume and pods, for a delete that deletions are not stopped, and for a volume that may be
	// given up whether its node exists. controller.confirm says what it leaves out when.
	Everything
)

// Action is one step. The kinds are the types below. Their priority is their place in a plan.
type Action interface{ priority() int }

// Actions, in the order in which they are carried out.
type (
	// CreateContent makes the VolumeSnapshotContent of a VolumeSnapshot.
	CreateContent struct{}
	// RecordContent writes on a VolumeSnapshotContent that the snapshot-controller made which volume it is of.
	RecordContent struct{}
	// SetContentReady writes into the content's status that its snapshot exists, as it was At. Size is the least that a
	// volume restored from it needs, 0 where that is not known.
	SetContentReady struct {
		At   time.Time
		Size int64
	}
	// SetContentError writes into the content's status why there is no snapshot yet. The snapshot-controller shows it
	// on the VolumeSnapshot.
	SetContentError struct{ Message string }
	// FinishContent takes the annotation off by which a content says that its snapshot may exist in part.
	FinishContent struct{}
	// ReleaseContent takes the finalizer off a content that is being deleted, whose snapshot is gone or stays.
	ReleaseContent struct{}
	// KeepAttachment puts the finalizer on a VolumeAttachment, before the first pod that attaches its volume, and what
	// the node says of itself.
	KeepAttachment struct{}
	// SetAttached writes into the status of a VolumeAttachment that the node can reach the volume.
	SetAttached struct{}
	// SetAttachmentError writes into its status why it cannot, or still can.
	SetAttachmentError struct{ Message string }
	// ReleaseAttachment takes the finalizer off a VolumeAttachment whose volume is detached.
	ReleaseAttachment struct{}
	// RepairVolume gives a new volume what it lacks.
	RepairVolume struct{ *podspec.Repair }
	// SetFinalizer puts contract.VolumeFinalizer on the volume, or takes it off.
	SetFinalizer struct{ Present bool }
	// SetNodeGone writes on the volume since when its node is gone; zero takes that back.
	SetNodeGone struct{ Since time.Time }
	// SetCloneOf writes on the claim which claim its volume is a clone of, as namespace/name.
	SetCloneOf struct{ Source string }
	// SetCapacity writes the size that the volume's storage is known to have.
	SetCapacity struct{ Size resource.Quantity }
	// SetResizeStatus writes into the claim's status how its expansion stands. It comes before an attempt: quotas count
	// what is allocated.
	SetResizeStatus struct{ *resize.Status }
	// RetractVolume deletes a volume that cannot serve before its storage is removed. Its finalizer keeps the object.
	// The binder takes no volume that is being deleted, and without that it might take this one meanwhile.
	RetractVolume struct{}
	// CreatePod starts an attempt.
	CreatePod struct{ observed.AttemptSpec }
	// StopPod deletes a pod that has not started, or must not run any longer. The pod stays until it has ended.
	StopPod struct {
		Pod *corev1.Pod
		// Kill leaves a container that runs no time to end by itself.
		Kill bool
	}
	// DeleteVolume deletes the PersistentVolume, whose storage is gone, or was given up.
	DeleteVolume struct{ GivenUp bool }
	// Reschedule takes the selected node off the claim, so that the scheduler chooses again. After is the pod that
	// failed there, and Without is a node that cannot serve the class for a while, empty for none.
	Reschedule struct {
		After   types.UID
		Without string
	}
	// AcknowledgePod notes on a pod that its outcome has been acted on, and lets the pod go unless it has to stay. Of
	// one that was saved that goes for its record.
	AcknowledgePod struct {
		observed.Attempt
		// Keep is how long the pod stays for its log; 0 deletes it.
		Keep time.Duration
		// KeepName keeps the pod and its finalizer, so that its name stays taken.
		KeepName bool
	}
	// ResyncClaim makes the library sync the claim. It may have dropped the claim while a volume existed.
	ResyncClaim struct{}
	// SetWaitingCondition writes into the claim's status why it waits; without a reason it removes that. It comes last
	// of what is done for the claim, since nothing of that depends on it.
	SetWaitingCondition struct {
		Reason  podspec.Reason
		Message string
	}
	// NoteVolume writes on a provisioning pod which volume exists beside it: its UID, or its name where only the claim
	// still says so. It and the actions below are carried out whatever became of those above.
	NoteVolume struct {
		observed.Attempt
		Volume string
	}
	// SavePod keeps the record of an ended pod without the pod, or brings what is said on the record up to date.
	SavePod struct{ observed.Attempt }
	// ReleasePod lets go of a pod that was saved.
	ReleasePod struct{ observed.Attempt }
)

func (CreateContent) priority() int       { return 0 }
func (RecordContent) priority() int       { return 0 }
func (SetContentReady) priority() int     { return 0 }
func (SetContentError) priority() int     { return 0 }
func (FinishContent) priority() int       { return 0 }
func (ReleaseContent) priority() int      { return 7 }
func (KeepAttachment) priority() int      { return 0 }
func (SetAttached) priority() int         { return 0 }
func (SetAttachmentError) priority() int  { return 0 }
func (ReleaseAttachment) priority() int   { return 7 }
func (RepairVolume) priority() int        { return 0 }
func (SetFinalizer) priority() int        { return 0 }
func (SetNodeGone) priority() int         { return 1 }
func (SetCloneOf) priority() int          { return 1 }
func (SetCapacity) priority() int         { return 2 }
func (SetResizeStatus) priority() int     { return 3 }
func (RetractVolume) priority() int       { return 4 }
func (CreatePod) priority() int           { return 5 }
func (StopPod) priority() int             { return 6 }
func (DeleteVolume) priority() int        { return 7 }
func (Reschedule) priority() int          { return 8 }
func (AcknowledgePod) priority() int      { return 9 }
func (ResyncClaim) priority() int         { return 10 }
func (SetWaitingCondition) priority() int { return 11 }
func (NoteVolume) priority() int          { return 12 }
func (SavePod) priority() int             { return 13 }
func (ReleasePod) priority() int          { return 14 }

// do adds actions. An attempt's pod goes last, when its outcome has been acted on.
func (p *Plan) do(actions ...Action) {
	p.Actions = append(p.Actions, actions...)
	slices.SortStableFunc(p.Actions, func(a, b Action) int { return a.priority() - b.priority() })
}

// report adds an event. The recorder records it once.
func (p *Plan) report(e events.Event) { p.Events = append(p.Events, e) }

// RequeueBy requeues the claim at a time, unless the plan requeues it earlier.
func (p *Plan) RequeueBy(at time.Time) {
	if p.RequeueAt.IsZero() || at.Before(p.RequeueAt) {
		p.RequeueAt = at
	}
}

// waitsUntil reports whether a time is still to come, and requeues the claim then.
func (p *Plan) waitsUntil(s *observed.Claim, until time.Time) bool {
	if !s.Now.Before(until) {
		return false
	}

	p.RequeueBy(until)

	return true
}

// Find is the plan's action of a kind.
func Find[A Action](p Plan) (action A, ok bool) {
	for _, a := range p.Actions {
		action, ok = a.(A)
		if ok {
			return action, true
		}
	}

	return action, false
}

package inspect

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/resize"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Phase is how far the operation on a claim has come.
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
	// Bound: nothing is left to do.
	Bound Phase = "Bound"
	// Released: the claim is gone, and nobody removes the volume's storage.
	Released Phase = "Released"
	// Gone: claim and volume do not exist any more.
	Gone Phase = "Gone"
)

// State is how a claim stands.
type State struct {
	Namespace string `json:"namespace,omitempty"`
	Claim     string `json:"claim,omitempty"`
	UID       string `json:"uid,omitempty"`
	Class     string `json:"storageClass,omitempty"`
	Volume    string `json:"volume,omitempty"`
	// Operation is provision, expand, delete or undo; empty where there is nothing to do.
	Operation string `json:"operation,omitempty"`
	Phase     Phase  `json:"phase"`
	// Since is when the wait began.
	Since time.Time `json:"since,omitzero"`
	// Attempt is the number of the newest attempt, -1 where there was none.
	Attempt int    `json:"attempt"`
	Pod     string `json:"pod,omitempty"`
	Node    string `json:"node,omitempty"`
	// NextAttempt is when the next one follows, zero where it waits for something else than time.
	NextAttempt time.Time `json:"nextAttempt,omitzero"`
	Cause
	// EventsOnly says that the state was read off the claim and its events alone.
	EventsOnly bool `json:"eventsOnly,omitempty"`
	// NotOurs is the provisioner whose claim it is, where it is another one.
	NotOurs string `json:"provisioner,omitempty"`
}

// Troubled says that something is wrong.
func (s State) Troubled() bool { return s.Warning }

// Done says that nothing is left to do.
func (s State) Done() bool { return s.Phase == Bound || s.Phase == Released || s.Phase == Gone }

// StateOf is how the claim with a UID stands.
func (o *Objects) StateOf(uid string) State {
	claim := o.claim(uid)
	volume := o.VolumeNamed(podspec.VolumeName(uid))
	s := State{UID: uid, Attempt: -1, Phase: Waiting}
	s.identify(claim, volume, o.podsOf(uid))
	if other := o.other(claim, volume, len(o.podsOf(uid)) > 0); other != "" {
		s.NotOurs = podspec.OneLine(other)
		s.Phase, s.Operation = phaseOfOther(claim), ""
		return s
	}
	if !o.complete() {
		return o.stateByEvents(s, claim)
	}
	snap := o.snapshot(uid)
	plan := reconcile.Decide(snap)
	s.Operation, s.Since = operation(snap)
	newest, tried := attemptOf(snap, s.Operation)
	if tried {
		s.Attempt, s.Pod, s.Node = newest.Number, newest.Pod.Name, newest.Node()
	}
	s.Cause = o.cause(snap, plan, s.Operation)
	switch {
	case s.Operation == "" && claim == nil && volume == nil:
		s.Phase = Gone
	case s.Operation == "" && volume != nil && volume.Status.Phase == corev1.VolumeReleased:
		s.Phase = Released
	case s.Operation == "":
		s.Phase = Bound
	case tried && !newest.Outcome.Final():
		s.Phase = Running
		if newest.Outcome.Phase == podspec.Starting {
			s.Phase = Starting
		}
	case plan.ProtectedBy != podspec.ReasonNone:
		s.Phase = Held
	default:
		if _, until, ok := reconcile.Delayed(snap); ok {
			s.Phase, s.NextAttempt = Failed, until
		} else if !plan.RequeueAt.IsZero() && tried {
			s.Phase, s.NextAttempt = Failed, plan.RequeueAt
		}
	}
	return s
}

func (s *State) identify(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, pods []*corev1.Pod) {
	switch {
	case claim != nil:
		s.Namespace, s.Claim, s.Class, s.Since = claim.Namespace, claim.Name, classOf(claim), claim.CreationTimestamp.Time
	case volume != nil:
		s.Class, s.Since = podspec.ClassOf(volume), volume.CreationTimestamp.Time
		if ref := volume.Spec.ClaimRef; ref != nil {
			s.Namespace, s.Claim = ref.Namespace, ref.Name
		}
	case len(pods) > 0:
		s.Class = pods[0].Annotations[contract.AnnClass]
		if request, err := podspec.RequestOf(pods[0]); err == nil {
			s.Namespace, s.Claim = request.Claim.Namespace, request.Claim.Name
		}
	}
	if volume != nil {
		s.Volume = volume.Name
	}
	// A volume's fields, and what a pod's annotation says, may be any text.
	for _, text := range []*string{&s.Namespace, &s.Claim, &s.Class, &s.Volume} {
		*text = podspec.OneLine(*text)
	}
}

// other is the provisioner that answers for the claim, where that is another one; Nobody where none is known.
func (o *Objects) other(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, pods bool) string {
	switch {
	case pods:
		return ""
	case volume != nil && o.ownVolume(volume):
		return ""
	case volume != nil:
		return volume.Annotations[contract.ProvisionedBy]
	case claim == nil:
		return ""
	case claim.Spec.VolumeName != "" && claim.Spec.VolumeName != podspec.VolumeName(string(claim.UID)):
		if v := o.VolumeNamed(claim.Spec.VolumeName); v != nil && v.Annotations[contract.ProvisionedBy] != "" {
			return v.Annotations[contract.ProvisionedBy]
		}
		return Nobody
	}
	switch by := o.provisionerOf(claim); {
	case by == o.Dispatcher.Provisioner:
		return ""
	case by == "" && (o.class(classOf(claim)) != nil || !o.reads(Classes) || len(o.dispatcherEvents(claim)) > 0 || o.judge(classOf(claim)).Present):
		return ""
	case by == "":
		return Nobody
	default:
		return by
	}
}

// Nobody stands in State.NotOurs for no provisioner at all.
const Nobody = "nobody"

func (o *Objects) dispatcherEvents(claim *corev1.PersistentVolumeClaim) []*corev1.Event {
	return slices.DeleteFunc(o.eventsOn(claim.Namespace, claim.UID), func(e *corev1.Event) bool { return !ofDispatcher(e) })
}

func phaseOfOther(claim *corev1.PersistentVolumeClaim) Phase {
	if claim != nil && claim.Status.Phase != corev1.ClaimBound {
		return Waiting
	}
	return Bound
}

// Operations beside those of the contract.
const undo = "undo"

// operation is what is to be done for the claim, and since when.
func operation(s *snapshot.Snapshot) (op string, since time.Time) {
	claim, v := s.Claim, s.Volume
	deletes, provisions := s.Of(contract.Delete), s.Of(contract.Provision)
	switch {
	case v != nil && (s.Released || v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound):
		return string(contract.Delete), releasedAt(v)
	case v == nil && len(deletes) > 0:
		return undo, deletes[0].Pod.CreationTimestamp.Time
	case s.Pending():
		return string(contract.Provision), claim.CreationTimestamp.Time
	case v == nil && len(provisions) > 0:
		return undo, s.Ended(provisions[len(provisions)-1])
	case claim != nil && claim.DeletionTimestamp != nil:
		return string(contract.Delete), claim.DeletionTimestamp.Time
	case v != nil && s.ClaimLives() && !podspec.Bound(claim, v) && s.Claim.Spec.VolumeName == "":
		return string(contract.Provision), claim.CreationTimestamp.Time
	case s.Expandable() && expands(s):
		return string(contract.Expand), expandsSince(s)
	}
	return "", since
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

// expands says that the claim asks for more than its volume has, or that its status speaks of an expansion.
func expands(s *snapshot.Snapshot) bool {
	asked, has := snapshot.Requested(s.Claim), snapshot.Capacity(s.Volume)
	return asked.Cmp(has) > 0 || resize.Marked(s.Claim) || len(s.Of(contract.Expand)) > 0
}

func expandsSince(s *snapshot.Snapshot) (since time.Time) {
	for _, c := range s.Claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimResizing || c.Type == corev1.PersistentVolumeClaimControllerResizeError {
			if since.IsZero() || c.LastTransitionTime.Time.Before(since) {
				since = c.LastTransitionTime.Time
			}
		}
	}
	return since
}

// attemptOf is the newest attempt of the operation, or of one that has not ended.
func attemptOf(s *snapshot.Snapshot, op string) (snapshot.Attempt, bool) {
	if running, ok := snapshot.Unfinished(s.Attempts); ok {
		return running, true
	}
	of := contract.Operation(op)
	if op == undo {
		of = contract.Delete
	}
	return s.Latest(of)
}

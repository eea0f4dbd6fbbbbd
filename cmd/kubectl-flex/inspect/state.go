package inspect

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Phase is the phase of the operation on a claim: one of package progress, or one of those below.
type Phase = progress.Phase

// Phases of claims for which nothing is to be done.
const (
	// Bound says that the claim has its volume.
	Bound Phase = "Bound"
	// Released says that the claim is gone, and that nobody removes the volume's storage.
	Released Phase = "Released"
	// Gone says that neither claim nor volume exists.
	Gone Phase = "Gone"
	// Lost says that the claim does not have the volume any more that it was bound to.
	Lost Phase = "Lost"
)

// State is the state of a claim.
type State struct {
	Namespace string `json:"namespace,omitempty"`
	Claim     string `json:"claim,omitempty"`
	UID       string `json:"uid,omitempty"`
	Class     string `json:"storageClass,omitempty"`
	Volume    string `json:"volume,omitempty"`
	// Snapshot is the VolumeSnapshot, and Content the VolumeSnapshotContent, of a snapshot, which has no Claim.
	Snapshot   string `json:"volumeSnapshot,omitempty"`
	Content    string `json:"volumeSnapshotContent,omitempty"`
	OfSnapshot bool   `json:"-"`
	// Operation is provision, expand, delete, undo, snapshot or delete-snapshot; empty where there is nothing to do.
	Operation string `json:"operation,omitempty"`
	Phase     Phase  `json:"phase"`
	// Since is when the operation began.
	Since time.Time `json:"since,omitzero"`
	// Attempt is the number of the newest attempt, -1 where there was none.
	Attempt int    `json:"attempt"`
	Pod     string `json:"pod,omitempty"`
	Node    string `json:"node,omitempty"`
	// NextAttempt is when the next attempt follows. It is zero where that does not depend on time alone.
	NextAttempt time.Time `json:"nextAttempt,omitzero"`
	Cause
	// EventsOnly reports whether the state is derived from the claim and its events alone.
	EventsOnly bool `json:"eventsOnly,omitempty"`
	// NotOurs is the provisioner of the claim if it is not this dispatcher, or Nobody. Else it is empty.
	NotOurs string `json:"provisioner,omitempty"`
}

// Troubled reports whether something is wrong.
func (s State) Troubled() bool { return s.Warning }

// Done reports whether nothing is left to do.
func (s State) Done() bool {
	return slices.Contains([]Phase{Bound, Ready, Released, Gone, Lost}, s.Phase)
}

// StateOf is the state of the claim with a UID, or where that is gone of the claim that has its volume now.
func (o *Objects) StateOf(uid string) State {
	s := o.stateOf(uid)
	s.Do = o.addressed(s)
	return s
}

func (o *Objects) stateOf(uid string) State {
	if o.snapshotOf(uid) != nil {
		return o.snapshotState(uid)
	}
	claim := o.claim(uid)
	if claim == nil {
		uid = o.holderOf(uid)
		claim = o.claim(uid)
	}
	key := o.keyOf(uid)
	volume, pods := o.VolumeNamed(podspec.VolumeName(key)), o.recordedOf(key)
	s := State{UID: uid, Attempt: -1, Phase: progress.Waiting}
	s.identify(claim, volume, pods)
	if cause, absent := o.absentVolume(claim); absent && len(pods) == 0 {
		s.Cause = cause
		return s
	}
	if other := o.otherProvisioner(claim, volume, len(pods) > 0); other != "" {
		s.NotOurs = podspec.OneLine(other)
		s.Phase, s.Operation = phaseOfOther(claim), ""
		if other == Nobody && claim != nil && claim.Spec.VolumeName == "" {
			s.Cause = o.missingClass(podspec.ClassOfClaim(claim))
		}
		return s
	}
	if !o.complete() {
		return o.stateByEvents(s, claim)
	}
	if cause, lost := o.lostVolume(claim, volume); lost {
		s.Phase, s.Cause, s.Volume = Lost, cause, podspec.OneLine(claim.Spec.VolumeName)
		return s
	}
	s.Since = time.Time{} // a claim may be older than what is to be done for it
	o.follow(&s, o.observe(uid))
	switch {
	case s.Operation != "":
	case s.Reason == reasonGrows:
		s.Operation, s.Phase = string(contract.Expand), progress.Waiting
	case claim == nil && volume == nil:
		s.Phase = Gone
	case volume != nil && (volume.Status.Phase == corev1.VolumeReleased || volume.Status.Phase == corev1.VolumeFailed):
		s.Phase = Released
	default:
		s.Phase = Bound
	}
	return s
}

// follow sets how what is observed stands, by the plan that the dispatcher makes of it.
func (o *Objects) follow(s *State, seen *observed.Claim) {
	plan := reconcile.Decide(seen)
	st := progress.Of(seen, plan)
	s.Operation, s.Phase, s.NextAttempt = st.Operation, st.Phase, plan.NextAttempt
	if !st.Since.IsZero() {
		s.Since = st.Since
	}
	if st.Tried {
		s.Attempt, s.Pod, s.Node = st.Attempt.Number, st.Attempt.Pod.Name, st.Attempt.Node()
	}
	s.Cause = o.cause(seen, plan, s.Operation)
}

func (s *State) identify(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, pods []*corev1.Pod) {
	switch {
	case claim != nil:
		s.Namespace, s.Claim, s.Class, s.Since = claim.Namespace, claim.Name, podspec.ClassOfClaim(claim), claim.CreationTimestamp.Time
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
	// The fields of a volume and the annotations of a pod may be any text.
	for _, text := range []*string{&s.Namespace, &s.Claim, &s.Class, &s.Volume} {
		*text = podspec.OneLine(*text)
	}
}

// otherProvisioner is the provisioner of the claim if it is not this dispatcher, Nobody where none is known. Else it is empty.
func (o *Objects) otherProvisioner(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume, pods bool) string {
	switch {
	case pods:
		return ""
	case volume != nil && o.ownVolume(volume):
		return ""
	case volume != nil:
		return volume.Annotations[contract.ProvisionedBy]
	case claim == nil:
		return ""
	case o.ofAnotherName(claim):
		if v := o.VolumeNamed(claim.Spec.VolumeName); v != nil && v.Annotations[contract.ProvisionedBy] != "" {
			return v.Annotations[contract.ProvisionedBy]
		}
		return Nobody
	}
	switch by := o.provisionerOf(claim); {
	case by == o.Dispatcher.Provisioner:
		return ""
	case by == "" && (o.class(podspec.ClassOfClaim(claim)) != nil || !o.reads(Classes) || len(o.dispatcherEvents(claim)) > 0 || o.resolve(podspec.ClassOfClaim(claim)).Present):
		return ""
	case by == "" && o.similarClass(podspec.ClassOfClaim(claim)) != "":
		return "" // its author meant that one
	case by == "":
		return Nobody
	default:
		return by
	}
}

// ofAnotherName reports whether the claim has a volume that no provisioner pod made for it. A volume that is lost, or
// may not be read, may have been made for another claim.
func (o *Objects) ofAnotherName(claim *corev1.PersistentVolumeClaim) bool {
	name := claim.Spec.VolumeName
	_, made := podspec.ClaimUIDOf(name)
	return name != "" && name != podspec.VolumeName(string(claim.UID)) && (!made || o.VolumeNamed(name) != nil)
}

// Nobody is the value of State.NotOurs for a claim without any provisioner.
const Nobody = "nobody"

func (o *Objects) dispatcherEvents(claim *corev1.PersistentVolumeClaim) []*corev1.Event {
	return filter(o.eventsOnClaim(claim), fromDispatcher)
}

func phaseOfOther(claim *corev1.PersistentVolumeClaim) Phase {
	if claim != nil && claim.Status.Phase != corev1.ClaimBound {
		return progress.Waiting
	}
	return Bound
}

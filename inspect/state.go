package inspect

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Phase is how far the operation on a claim has come: one of package reconcile, or of those below.
type Phase = progress.Phase

// Phases of claims for which nothing is to be done.
const (
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
	// EventsOnly reports whether the state was read off the claim and its events alone.
	EventsOnly bool `json:"eventsOnly,omitempty"`
	// NotOurs is the provisioner whose claim it is, where it is another one.
	NotOurs string `json:"provisioner,omitempty"`
}

// Troubled reports whether something is wrong.
func (s State) Troubled() bool { return s.Warning }

// Done reports whether nothing is left to do.
func (s State) Done() bool { return s.Phase == Bound || s.Phase == Released || s.Phase == Gone }

// StateOf is how the claim with a UID stands.
func (o *Objects) StateOf(uid string) State {
	claim := o.claim(uid)
	volume := o.VolumeNamed(podspec.VolumeName(uid))
	s := State{UID: uid, Attempt: -1, Phase: progress.Waiting}
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
	st := progress.Of(snap, plan)
	s.Operation = st.Operation
	if s.Since = st.Since; st.Tried {
		s.Attempt, s.Pod, s.Node = st.Attempt.Number, st.Attempt.Pod.Name, st.Attempt.Node()
	}
	s.Cause = o.cause(snap, plan, s.Operation)
	s.Phase, s.NextAttempt = st.Phase, plan.NextAttempt
	switch {
	case s.Operation != "":
	case claim == nil && volume == nil:
		s.Phase = Gone
	case volume != nil && volume.Status.Phase == corev1.VolumeReleased:
		s.Phase = Released
	default:
		s.Phase = Bound
	}
	return s
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
	case by == "" && (o.class(podspec.ClassOfClaim(claim)) != nil || !o.reads(Classes) || len(o.dispatcherEvents(claim)) > 0 || o.judge(podspec.ClassOfClaim(claim)).Present):
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
	return slices.DeleteFunc(o.eventsOnClaim(claim), func(e *corev1.Event) bool { return !ofDispatcher(e) })
}

func phaseOfOther(claim *corev1.PersistentVolumeClaim) Phase {
	if claim != nil && claim.Status.Phase != corev1.ClaimBound {
		return progress.Waiting
	}
	return Bound
}

package observed

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Attempt is one try of an operation, as its provisioner pod shows it.
type Attempt struct {
	Pod     *corev1.Pod
	Op      contract.Operation
	Number  int
	Outcome podspec.Outcome
	// Size in bytes is what an expansion was asked to reach, else 0.
	Size int64
	// Saved is the ControllerRevision that keeps the pod's record, or nil. Gone reports whether the pod itself does not
	// exist any more, or nothing keeps it: Pod is what was saved of it.
	Saved *appsv1.ControllerRevision
	Gone  bool
}

// NewAttempt reads a pod. podProblem is what the kubelet said of it in events alone, or empty.
func NewAttempt(pod *corev1.Pod, podProblem string) Attempt {
	op, _, number, _ := podspec.ParseName(pod.Name)
	outcome := podspec.OutcomeOf(pod)
	unexplained := outcome.Phase == podspec.Starting && outcome.Reason == podspec.ReasonNone
	if unexplained && podProblem != "" {
		outcome.Reason, outcome.Message = problemReason(podProblem), podProblem
	}

	a := Attempt{Pod: pod, Op: op, Number: number, Outcome: outcome}
	if op == contract.Expand {
		if request, err := podspec.RequestOf(pod); err == nil {
			a.Size = request.SizeBytes
		}
	}

	return a
}

// SetPods takes in the claim's pods, and those that were saved. problem is what events say of the start of a pod, empty
// for nothing. A pod that exists and has its finalizer counts, and not what was saved of it.
func (s *Claim) SetPods(
	pods []*corev1.Pod, saved []*appsv1.ControllerRevision, problem func(pod *corev1.Pod) string,
) {
	s.Attempts, s.Retained = nil, nil

	records := map[types.UID]*appsv1.ControllerRevision{}
	for _, revision := range saved {
		if pod := podspec.SavedPod(revision); pod != nil && s.isFor(pod) {
			records[pod.UID] = revision
		}
	}

	for _, pod := range pods {
		record := records[pod.UID]
		kept := slices.Contains(pod.Finalizers, contract.PodFinalizer)
		if !s.isFor(pod) || record != nil && !kept {
			continue
		}

		a := NewAttempt(withWords(pod, record), problem(pod))
		a.Saved = record
		s.Add(a)
		delete(records, pod.UID)
	}

	for _, record := range records {
		a := NewAttempt(podspec.SavedPod(record), "")
		a.Saved, a.Gone = record, true
		s.Add(a)
	}

	s.Sort()
}

// isFor reports whether a pod is of the claim by its name. The API server finds pods by a label, which somebody may
// change.
func (s *Claim) isFor(pod *corev1.Pod) bool {
	_, uid, _, ok := podspec.ParseName(pod.Name)
	return ok && uid == s.UID
}

// withWords is the pod with what was said about it on its record since that was saved.
func withWords(pod *corev1.Pod, record *appsv1.ControllerRevision) *corev1.Pod {
	if record == nil {
		return pod
	}

	said := *pod
	said.Annotations = maps.Clone(pod.Annotations)
	maps.Copy(said.Annotations, podspec.Words(record.Annotations))

	return &said
}

// Add adds a pod's attempt, to Retained if its outcome has been acted on. Sort follows.
func (s *Claim) Add(a Attempt) {
	if podspec.Handled(a.Pod) && a.Outcome.Final() {
		s.Retained = append(s.Retained, a)
	} else {
		s.Attempts = append(s.Attempts, a)
	}
}

// Sort puts the oldest attempts first. Times have whole seconds, so the number decides between two of one second.
func (s *Claim) Sort() {
	slices.SortFunc(s.Attempts, compare)
	slices.SortFunc(s.Retained, compare)
}

func compare(a, b Attempt) int {
	return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time), cmp.Compare(a.Number, b.Number))
}

// All are the attempts and the retained pods, in no order.
func (s *Claim) All() []Attempt { return append(slices.Clone(s.Retained), s.Attempts...) }

// Of are the attempts of an operation whose outcome has not been acted on, oldest first.
func (s *Claim) Of(op contract.Operation) []Attempt { return ofOperation(s.Attempts, op) }

func ofOperation(attempts []Attempt, op contract.Operation) []Attempt {
	return slices.DeleteFunc(slices.Clone(attempts), func(a Attempt) bool { return a.Op != op })
}

// Newest reports whether no later pod of the attempt's operation is known.
func (s *Claim) Newest(a Attempt) bool {
	return !slices.ContainsFunc(ofOperation(s.All(), a.Op), func(other Attempt) bool {
		return other.Pod.UID != a.Pod.UID && compare(other, a) >= 0
	})
}

// Latest is the newest pod of an operation, retained ones included.
func (s *Claim) Latest(op contract.Operation) (latest Attempt, ok bool) {
	all := ofOperation(s.All(), op)
	if len(all) == 0 {
		return Attempt{}, false
	}

	return slices.MaxFunc(all, compare), true
}

// NextNumber is the number of the operation's next attempt. Numbers start over after the largest, and skip those of
// pods that stay, whose names are taken.
func (s *Claim) NextNumber(op contract.Operation) int {
	latest, ok := s.Latest(op)
	if !ok {
		return 0
	}

	next := func(number int) int { return (number + 1) % (podspec.MaxAttempt + 1) }
	number := next(latest.Number)
	for slices.ContainsFunc(ofOperation(s.All(), op), func(a Attempt) bool { return a.Number == number }) {
		number = next(number)
	}

	return number
}

// Kind is the kind of the object that has the attempt's record, for kubectl.
func (a Attempt) Kind() string {
	if a.Gone {
		return "controllerrevision"
	}

	return "pod"
}

// KindOf is the kind of the object that has the record of the pod's attempt.
func (s *Claim) KindOf(pod *corev1.Pod) string {
	a, _ := first(s.All(), func(a Attempt) bool { return a.Pod.UID == pod.UID })
	return a.Kind()
}

// Node is the node that may have storage of this attempt or of an earlier one. It is empty where nobody knows.
func (a Attempt) Node() string { return cmp.Or(a.Outcome.Node, a.Pod.Annotations[contract.AnnNode]) }

// Location is the location that this attempt or an earlier one reported, empty where none did. The first report counts:
// an image that reports something else later ignores the location that it was given.
func (a Attempt) Location() string {
	if request, err := podspec.RequestOf(a.Pod); err == nil && request.Location != "" {
		return request.Location
	}

	return a.Outcome.Location
}

// ForVolume reports whether the attempt was made for this volume, and not for an earlier one of its name.
func (a Attempt) ForVolume(v *corev1.PersistentVolume) bool {
	return a.Pod.Annotations[contract.AnnVolumeUID] == string(v.UID)
}

// Undoes reports whether the attempt, a delete, was created when the other one had ended.
func (a Attempt) Undoes(other Attempt) bool {
	return slices.Contains(strings.Split(a.Pod.Annotations[contract.AnnUndoes], ","), string(other.Pod.UID))
}

// Misses reports whether the attempt, a delete, may have come too early for what one of the others made.
func (a Attempt) Misses(others []Attempt) bool {
	return slices.ContainsFunc(others, func(other Attempt) bool {
		return other.Outcome.MayHaveMade() && !a.Undoes(other)
	})
}

// SizeUnclear reports whether an expansion may have enlarged the storage without saying so. It may also follow such an
// attempt, and not have found out: a pod that refuses, or never starts, says nothing about the attempt before it.
func (a Attempt) SizeUnclear() bool {
	foundOut := a.Outcome.Phase != podspec.Failed || a.Outcome.Reason == podspec.ReasonFailed
	followsUnclear := a.Pod.Annotations[contract.AnnSuspect] != ""

	return a.Outcome.Unclear() || followsUnclear && !foundOut
}

// Unfinished is the first attempt that has not ended.
func Unfinished(attempts []Attempt) (Attempt, bool) {
	return first(attempts, func(a Attempt) bool { return !a.Outcome.Final() })
}

// Suspect is the oldest attempt that may have made storage. Its request finds that storage again.
func Suspect(attempts []Attempt) (Attempt, bool) {
	return first(attempts, func(a Attempt) bool {
		return a.Outcome.MayHaveMade() || a.Pod.Annotations[contract.AnnSuspect] != ""
	})
}

func first(attempts []Attempt, is func(Attempt) bool) (Attempt, bool) {
	if i := slices.IndexFunc(attempts, is); i >= 0 {
		return attempts[i], true
	}

	return Attempt{}, false
}

// Last is the last attempt of a list.
func Last(attempts []Attempt) (Attempt, bool) {
	if len(attempts) == 0 {
		return Attempt{}, false
	}

	return attempts[len(attempts)-1], true
}

// Ended is when the attempt ended, and Started when the kubelet took it. The node reports both, and its clock may
// differ from the API server's. A time before the pod's creation, or after now, is replaced by that of the creation.
func (s *Claim) Ended(a Attempt) time.Time { return s.plausible(a.Pod, a.Outcome.Finished) }

// Started is zero for a pod that no kubelet has taken. See Ended.
func (s *Claim) Started(a Attempt) time.Time {
	if a.Pod.Status.StartTime == nil {
		return time.Time{}
	}

	return s.plausible(a.Pod, a.Pod.Status.StartTime.Time)
}

// lateRequest is how long a storage system may work on a request whose client was killed. It is what proxies and
// message queues wait for an answer by default.
const lateRequest = time.Minute

// LateUntil is the time until which a storage system may still carry out the last requests of killed attempts. It is
// zero where none was killed.
//
// An attempt replaces the pods of those before it, and has their time in its annotation. Of attempts that came to a
// volume, the newest has no other request; those of a snapshot came to none. The annotation counts up to the longest
// timeout after the pod's creation. Otherwise whoever may annotate pods could put off deletes for ever.
func (s *Claim) LateUntil(provisions []Attempt) (until time.Time) {
	for i, a := range provisions {
		late, _ := time.Parse(time.RFC3339, a.Pod.Annotations[contract.AnnSuspect])
		longest := a.Pod.CreationTimestamp.Add(configmaps.MaxTimeout + lateRequest + time.Second)
		if late.After(longest) {
			late = longest
		}

		ofClaim := s.Snapshot == nil && s.Attachment == nil
		madeVolume := s.Volume != nil && ofClaim && i == len(provisions)-1
		if a.Outcome.Killed() && !madeVolume {
			late = latest(late, s.endedBy(a).Add(lateRequest))
		}

		until = latest(until, late)
	}

	return until
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}

	return a
}

// endedBy is Ended, or the pod's deadline where its node says what cannot be.
func (s *Claim) endedBy(a Attempt) time.Time {
	ended := s.Ended(a)
	deadline := a.Pod.Spec.ActiveDeadlineSeconds
	if deadline == nil || ended.Equal(a.Outcome.Finished) {
		return ended
	}

	return ended.Add(time.Duration(*deadline) * time.Second)
}

func (s *Claim) plausible(pod *corev1.Pod, at time.Time) time.Time {
	if at.Before(pod.CreationTimestamp.Time) || at.After(s.Now) {
		return pod.CreationTimestamp.Time
	}

	return at
}

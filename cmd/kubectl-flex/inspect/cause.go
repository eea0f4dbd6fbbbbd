package inspect

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Cause is the reason for a claim's state.
type Cause struct {
	// Reason is the reason of an event of docs/events.md, or one of this package.
	Reason  podspec.Reason `json:"reason,omitempty"`
	Message string         `json:"message,omitempty"`
	// Warning reports whether something is wrong.
	Warning bool `json:"warning,omitempty"`
	// Means and Do explain the reason.
	Means string `json:"means,omitempty"`
	Do    string `json:"do,omitempty"`
}

// Reasons of this package, for states about which the dispatcher writes no event.
const (
	reasonConsumer   podspec.Reason = "WaitForFirstConsumer"
	reasonNotHanded  podspec.Reason = "NotHandedOver"
	reasonNoClass    podspec.Reason = "NoStorageClass"
	reasonDispatcher podspec.Reason = "DispatcherWorks"
	reasonInUse      podspec.Reason = "ClaimInUse"
	reasonPodWorks   podspec.Reason = "PodWorks"
	reasonBinding    podspec.Reason = "WaitsForBinding"
	reasonKept       podspec.Reason = "VolumeRetained"
	reasonClass      podspec.Reason = "ClassInvalid"
	reasonNotGranted podspec.Reason = "NotGranted"
	reasonLost       podspec.Reason = "VolumeLost"
	reasonGiven      podspec.Reason = "VolumeGivenAway"
	reasonFailed     podspec.Reason = "VolumeFailed"
)

// reasonMeanings explains the reasons of this package.
var reasonMeanings = map[podspec.Reason]events.Meaning{
	reasonConsumer: {Means: "The class has volumeBindingMode WaitForFirstConsumer: the volume is made where the first pod runs that uses the claim.", Do: "create a pod that uses the claim."},
	reasonNotHanded: {Means: "Kubernetes has not asked the provisioner for a volume yet. kube-controller-manager does so, within 15 seconds after the class exists.",
		Do: "wait; if it stays so, look at the claim's events and at kube-controller-manager."},
	reasonNoClass: {Warning: true, Means: "The claim names a StorageClass that does not exist, or none, so that nobody makes a volume for it.", Do: "create the class, or the claim again with another one."},
	reasonDispatcher: {Means: "The dispatcher is about to take the next step.",
		Do: "nothing; if it stays so for more than a few seconds, look at the dispatcher: kubectl flex status."},
	reasonInUse:    {Means: "The claim is deleted once no pod uses it any more. Kubernetes waits for that.", Do: "delete the pods that use it."},
	reasonPodWorks: {Means: "A provisioner pod works on it, within the ConfigMap's timeout.", Do: "nothing; its log: kubectl flex logs."},
	reasonBinding:  {Means: "The volume exists, and Kubernetes binds it to the claim.", Do: "nothing."},
	reasonKept:     {Means: "The volume's reclaim policy is Retain: nobody removes its storage.", Do: "nothing, or give it up: kubectl flex release."},
	reasonLost: {Warning: true, Means: "The claim does not have the PersistentVolume any more that it was bound to: somebody deleted it with its finalizers, or gave it to another claim. Its storage may still exist.",
		Do: "create the PersistentVolume again ([restore.md](restore.md#a-claim-is-lost)). The audit lists the storage of classes that can list it: kubectl flex audit."},
	reasonGiven: {Means: "The volume's spec.claimRef names another claim: an importer, a backup tool or an administrator gave the volume to that claim.",
		Do: "nothing, or delete this claim. The storage stays with the other claim."},
	reasonFailed: {Warning: true, Means: "Kubernetes found no program that removes the volume's storage, and marked the volume Failed.",
		Do: "have the storage removed: kubectl flex release; or set the reclaim policy to Retain."},
	reasonClass:      {Warning: true, Means: "The StorageClass has a parameter that is not valid.", Do: "create the StorageClass again without it."},
	reasonNotGranted: {Warning: true, Means: "The allow-list does not let the class's ServiceAccount create what its ConfigMap asks for.", Do: "add the line to the ConfigMap, or let the class ask for less."},
}

func explain(reason podspec.Reason, message string, warning bool) Cause {
	c := Cause{Reason: podspec.Reason(podspec.Clean(string(reason))), Message: podspec.EventMessage(message), Warning: warning}
	m, ok := events.MeaningOf(reason)
	if !ok {
		m = reasonMeanings[reason]
		c.Warning = m.Warning
	}
	c.Means, c.Do = events.Plain(m.Means), events.Plain(m.Do)
	return c
}

// eventOnlyReasons are the reasons that only the dispatcher's events and a claim's status show, and no other object.
var eventOnlyReasons = []podspec.Reason{
	events.ReasonPodRefused, events.ReasonConcurrency, events.ReasonPoliciesMissing, events.ReasonLimit, events.ReasonRecord,
	events.ReasonNotOurs, events.ReasonStrayDelete, events.ReasonLeft, events.ReasonOrphan, events.ReasonStartTimeout,
}

// cause is the reason for the claim's state: the warning that the dispatcher would record now, else its newest event with one of
// eventOnlyReasons, else what Kubernetes waits for.
func (o *Objects) cause(s *observed.Claim, p reconcile.Plan, op string) Cause {
	if op == "" {
		if warning, ok := lastWarning(p); ok && s.RecordLost() {
			return warning
		}
		if cause, ok := o.newestEvent(s, lastingReasons); ok {
			return cause
		}
		return o.normalCause(s, op)
	}
	warning, warns := lastWarning(p)
	// The warning of a plan that creates a pod is about the last attempt. An event may say what delays the next one.
	if _, due := reconcile.Find[reconcile.CreatePod](p); due || !warns {
		if cause, ok := o.newestEvent(s, eventOnlyReasons); ok {
			return cause
		}
	}
	if warns {
		return warning
	}
	return o.normalCause(s, op)
}

// lastWarning is the last warning of a plan. A plan lists first what failed, then what delays the next attempt, and last an undo.
func lastWarning(p reconcile.Plan) (Cause, bool) {
	for _, e := range slices.Backward(p.Events) {
		if e.Warning && e.Reason != events.ReasonVolumeMended || e.Reason == events.ReasonUndo {
			return explain(e.Reason, e.Message, e.Warning), true
		}
	}
	return Cause{}, false
}

// lastingReasons are those of eventOnlyReasons that stay true when the claim has its volume, or is gone.
var lastingReasons = []podspec.Reason{events.ReasonStrayDelete, events.ReasonOrphan, events.ReasonNotOurs, events.ReasonLeft}

// believed lists what the dispatcher says of the claim, the volume and the pods, where a tenant cannot say it in its
// name. Who may create events in the claim's namespace can write any event on the claim, and only the dispatcher
// writes the claim's status. Events on volumes are in the namespace default, and those on pods in the provisioners'.
func (o *Objects) believed(s *observed.Claim) []*corev1.Event {
	list := slices.Clone(o.eventsOnVolume(podspec.VolumeName(s.UID)))
	for _, a := range s.All() {
		list = append(list, o.eventsOn(a.Pod.Namespace, a.Pod.UID)...)
	}
	if holder := s.Holder(); holder != nil {
		if told, waits := waitingEvent(holder); waits {
			list = append(list, told)
		}
	}
	slices.SortStableFunc(list, byLastSeen)
	return list
}

// newestEvent is the cause that the newest event with one of the reasons gives, if no pod was created since.
func (o *Objects) newestEvent(s *observed.Claim, reasons []podspec.Reason) (Cause, bool) {
	var since time.Time
	for _, a := range s.All() {
		if t := a.Pod.CreationTimestamp.Time; t.After(since) {
			since = t
		}
	}
	var newest *corev1.Event
	for _, e := range o.believed(s) {
		if e.Reason == string(events.ReasonPoliciesMissing) && o.reads(Policies) && len(o.Lacks) == 0 {
			continue // the policies are complete by now
		}
		if fromDispatcher(e) && slices.Contains(reasons, podspec.Reason(e.Reason)) && !lastSeen(e).Before(since) && (newest == nil || !lastSeen(e).Before(lastSeen(newest))) {
			newest = e
		}
	}
	if newest == nil {
		return Cause{}, false
	}
	return explain(podspec.Reason(newest.Reason), newest.Message, newest.Type == corev1.EventTypeWarning), true
}

// eventsAbout lists the events on an observed claim, on the volume and on the pods, oldest first.
func (o *Objects) eventsAbout(s *observed.Claim, claim *corev1.PersistentVolumeClaim) []*corev1.Event {
	var list []*corev1.Event
	if claim != nil {
		list = append(list, o.eventsOnClaim(claim)...)
	}
	list = append(list, o.eventsOnVolume(podspec.VolumeName(s.UID))...)
	for _, a := range s.All() {
		list = append(list, o.eventsOn(a.Pod.Namespace, a.Pod.UID)...)
	}
	for _, e := range o.indexed().configMapLogs { // the ends of logs, which only administrators can read
		if strings.Contains(e.Message, "-"+s.UID+"-") {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, byLastSeen)
	return list
}

// normalCause is the cause where nothing is wrong.
func (o *Objects) normalCause(s *observed.Claim, op string) Cause {
	running, runs := observed.Unfinished(s.Attempts)
	holder := s.Holder()
	inUse := holder != nil && holder.DeletionTimestamp != nil && s.Volume != nil && s.Volume.Status.Phase == corev1.VolumeBound
	switch {
	case op == "" && s.Volume != nil && s.Volume.Status.Phase == corev1.VolumeReleased && s.Volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain:
		return explain(reasonKept, "volume "+s.Volume.Name+" is Released and has reclaim policy Retain", false)
	case op == "" && s.Volume != nil && s.Volume.Status.Phase == corev1.VolumeFailed:
		return explain(reasonFailed, "volume "+s.Volume.Name+" is Failed: "+s.Volume.Status.Message, true)
	case op == "":
		return Cause{}
	case runs:
		return explain(reasonPodWorks, fmt.Sprintf("pod %s is %s", running.Pod.Name, strings.ToLower(string(running.Outcome.Phase))), false)
	case op == string(contract.Delete) && inUse:
		return explain(reasonInUse, "the claim is being deleted and has the finalizers "+strings.Join(holder.Finalizers, ", "), false)
	case s.Pending() && s.Class == nil && !s.Wanted:
		return explain(reasonNoClass, fmt.Sprintf("StorageClass %q does not exist", s.ClassName), true)
	case s.Pending() && s.WaitsForNode():
		return explain(reasonConsumer, "no pod that uses the claim has a node yet", false)
	case s.Pending() && !s.Wanted:
		return explain(reasonNotHanded, "the claim lacks the annotation by which Kubernetes asks a provisioner", false)
	case op == string(contract.Provision) && s.Volume != nil:
		return explain(reasonBinding, "volume "+s.Volume.Name+" exists", false)
	}
	return explain(reasonDispatcher, "nothing keeps the next attempt", false)
}

// stateByEvents is the state for a caller who may read only the claim and its events.
func (o *Objects) stateByEvents(s State, claim *corev1.PersistentVolumeClaim) State {
	s.EventsOnly = true
	if claim == nil {
		return s
	}
	if cause, lost := lostVolume(claim, nil); lost { // volumes were not read
		cause.Message += ", or belongs to another claim"
		s.Phase, s.Cause, s.Volume = Lost, cause, podspec.OneLine(claim.Spec.VolumeName)
		return s
	}
	asked, has := observed.Requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	switch {
	case claim.DeletionTimestamp != nil:
		s.Operation, s.Since = string(contract.Delete), claim.DeletionTimestamp.Time
	case claim.Status.Phase != corev1.ClaimBound:
		s.Operation = string(contract.Provision)
	case asked.Cmp(has) > 0:
		s.Operation = string(contract.Expand)
	default:
		s.Phase = Bound
		return s
	}
	list := o.dispatcherEvents(claim)
	if len(list) == 0 {
		s.Cause = o.normalCauseByEvents(claim, s.Operation)
		return s
	}
	newest := list[len(list)-1]
	reason := podspec.Reason(newest.Reason)
	s.Cause = explain(reason, newest.Message, newest.Type == corev1.EventTypeWarning)
	for word := range strings.FieldsFuncSeq(newest.Message, func(r rune) bool { return strings.ContainsRune(" ()/,;:", r) }) {
		if _, uid, number, ok := podspec.ParseName(word); ok && uid == string(claim.UID) {
			s.Pod, s.Attempt = word, number
			s.Phase = progress.Failed
		}
	}
	return s
}

func (o *Objects) normalCauseByEvents(claim *corev1.PersistentVolumeClaim, op string) Cause {
	for _, e := range slices.Backward(o.eventsOn(claim.Namespace, claim.UID)) {
		switch {
		case e.Reason == string(reasonConsumer):
			return explain(reasonConsumer, e.Message, false)
		case e.Type == corev1.EventTypeWarning:
			return Cause{Reason: podspec.Reason(podspec.Clean(e.Reason)), Message: podspec.Clean(e.Message), Warning: true,
				Means: "An " + origin(e) + " says so.", Do: "what the message asks for, or show it to an administrator of the cluster."}
		}
	}
	switch {
	case op == string(contract.Delete):
		return explain(reasonInUse, "the claim is being deleted and has the finalizers "+strings.Join(claim.Finalizers, ", "), false)
	case requestedProvisioner(claim) == "":
		return explain(reasonNotHanded, "the claim lacks the annotation by which Kubernetes asks a provisioner", false)
	}
	return explain(reasonDispatcher, "no event of the dispatcher says that anything is wrong", false)
}

package inspect

import (
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
	// now says what goes on where nothing is wrong with it. How the last attempt failed is then the cause, if one did.
	now string
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
	reasonGrows      podspec.Reason = "KubeletGrowsFileSystem"
	reasonAway       podspec.Reason = "NoDispatcher"
	reasonNoVolume   podspec.Reason = "NoSuchVolume"
	reasonTopology   podspec.Reason = "NoNodeAllowed"
	reasonDenied     podspec.Reason = "MayNotCreateVolumes"

	reasonNoCRDs          podspec.Reason = "NoSnapshotObjects"
	reasonNoContent       podspec.Reason = "NoSuchSnapshot"
	reasonNoSnapshotClass podspec.Reason = "NoVolumeSnapshotClass"
	reasonNotBound        podspec.Reason = "SnapshotNotBound"
)

// reasonMeanings explains the reasons of this package.
var reasonMeanings = map[podspec.Reason]events.Meaning{
	reasonConsumer: {Means: "The class has volumeBindingMode WaitForFirstConsumer: the volume is made where the first pod runs that uses the claim.", Do: "create a pod that uses the claim; if there is one, its events say why it has no node."},
	reasonNotHanded: {Means: "Kubernetes has not asked the provisioner for a volume yet. kube-controller-manager does so, within 15 seconds after the class exists.",
		Do: "wait; if it stays so, look at the claim's events and at kube-controller-manager."},
	reasonNoClass: {Warning: true, Means: "The claim names a StorageClass that does not exist, or none, so that nobody makes a volume for it.", Do: "create the class, or the claim again with another one."},
	reasonDispatcher: {Means: "The dispatcher is about to take the next step.",
		Do: "nothing; if it stays so for more than a few seconds, look at the dispatcher: kubectl flex status"},
	reasonAway: {Warning: true, Means: "No dispatcher works. Nothing is lost: it goes on from where it stopped.",
		Do: "start it: kubectl flex status shows its Lease and its replicas."},
	reasonGrows: {Means: "The storage has the new size. The kubelet grows the file system on the node of a pod that uses the claim, within a few minutes, and then the claim has the size too.",
		Do: "nothing; if no pod uses the claim, start one."},
	reasonInUse:    {Means: "The claim is deleted once no pod uses it any more. Kubernetes waits for that.", Do: "delete the pods that use it; if none does, see whether kube-controller-manager runs."},
	reasonPodWorks: {Means: "A provisioner pod works on it, within the ConfigMap's timeout.", Do: "nothing. Its log: kubectl flex logs"},
	reasonBinding:  {Means: "The volume exists, and kube-controller-manager binds it to the claim, within seconds.", Do: "nothing."},
	reasonKept:     {Means: "The volume's reclaim policy is Retain: nobody removes its storage.", Do: "nothing. To give it up: kubectl flex release"},
	reasonLost: {Warning: true, Means: "The claim does not have the PersistentVolume any more that it was bound to: somebody deleted it with its finalizers, or gave it to another claim. Its storage may still exist.",
		Do: "create the PersistentVolume again ([restore.md](restore.md#a-claim-is-lost)). The audit lists the storage of classes that can list it: kubectl flex audit"},
	reasonNoVolume: {Warning: true, Means: "The claim asks for a PersistentVolume by its name, in spec.volumeName. Kubernetes asks no provisioner for another one.",
		Do: "create that volume, or the claim again without spec.volumeName, so that its class makes one."},
	reasonDenied: {Warning: true, Means: "The pods of the class may create no volume, whatever the allow-list says.", Do: events.BindPods + "."},
	reasonTopology: {Warning: true, Means: "The scheduler finds no node for a pod that uses the claim, whatever the pod asks for.",
		Do: "give nodes such labels, or create the StorageClass again with other allowedTopologies."},
	reasonGiven: {Means: "The volume's spec.claimRef names another claim: an importer, a backup tool or an administrator gave the volume to that claim.",
		Do: "nothing, or delete this claim. The storage stays with the other claim."},
	reasonFailed: {Warning: true, Means: "Kubernetes found no program that removes the volume's storage, and marked the volume Failed.",
		Do: "set the reclaim policy to Retain, or have the storage removed: kubectl flex release"},
	reasonNoCRDs: {Warning: true, Means: "A pod of a snapshot is there, and the cluster does not serve the kinds of snapshots, or they may not be read. Nothing is done for the snapshot until they are.",
		Do: "install the CustomResourceDefinitions of snapshots again: kubectl get crd volumesnapshotcontents.snapshot.storage.k8s.io"},
	reasonNoContent: {Warning: true, Means: "The VolumeSnapshot is for a snapshot whose object does not exist.",
		Do: "create the VolumeSnapshotContent, or the VolumeSnapshot again."},
	reasonNoSnapshotClass: {Warning: true, Means: "Nobody takes the snapshot: only a VolumeSnapshotClass says which driver does.",
		Do: "create the VolumeSnapshotClass, or the VolumeSnapshot again with another one."},
	reasonNotBound: {Warning: true, Means: "The snapshot exists. The snapshot-controller tells its VolumeSnapshot so, within seconds.",
		Do: "wait; if it stays so, see that the snapshot-controller runs, and what its log says."},
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

// situation is what a cause is found by.
type situation struct {
	*observed.Claim
	plan reconcile.Plan
	op   string
}

// due reports whether nothing but the dispatcher keeps the next pod.
func (s situation) due() bool {
	_, due := reconcile.Find[reconcile.CreatePod](s.plan)
	return due
}

// row finds a cause, if it is the one.
type row func(o *Objects, s situation) (Cause, bool)

// The causes while an operation is to be done, and while none is. The first that is so is the claim's.
var (
	ofWork = []row{(*Objects).turn, (*Objects).told, planned, (*Objects).notGranted, running, inUse, (*Objects).noClass, (*Objects).noNode,
		notHanded, binding, (*Objects).away, nextStep}
	ofRest = []row{lostRecord, going, misfit, unattached, toldForGood, growing, kept, volumeFailed}
)

func (o *Objects) cause(s *observed.Claim, p reconcile.Plan, op string) Cause {
	at, rows := situation{s, p, op}, ofWork
	switch {
	case op == "" && s.Snapshot != nil:
		rows = ofSnapshotAtRest
	case op == "":
		rows = ofRest
	}

	for _, find := range rows {
		if cause, is := find(o, at); is {
			return o.afterFailures(at, cause)
		}
	}

	return Cause{}
}

// told is what only the dispatcher knows. The warning of a plan that creates a pod is about the last attempt. An event may say what
// delays the next one.
func (o *Objects) told(s situation) (Cause, bool) {
	if _, warns := lastWarning(s.plan); warns && !s.due() {
		return Cause{}, false
	}

	c, is := o.newestEvent(s.Claim, eventOnlyReasons)
	if c.Reason == events.ReasonConcurrency {
		c.now = waitsForTurn
	}

	return c, is
}

func toldForGood(o *Objects, s situation) (Cause, bool) {
	return o.newestEvent(s.Claim, lastingReasons)
}

func planned(_ *Objects, s situation) (Cause, bool) {
	warning, ok := lastWarning(s.plan)
	return onNode(s.Claim, warning), ok
}

func lostRecord(_ *Objects, s situation) (Cause, bool) {
	warning, ok := lastWarning(s.plan)
	return warning, ok && s.RecordLost()
}

func going(_ *Objects, s situation) (Cause, bool) {
	warning, ok := lastWarning(s.plan)
	return warning, ok && s.VolumeGoing()
}

// misfit is for a volume that the claim has although it does not fit.
func misfit(_ *Objects, s situation) (Cause, bool) {
	warning, ok := lastWarning(s.plan)
	claim := s.Claim.Claim
	bound := claim != nil && s.Volume != nil && podspec.Bound(claim, s.Volume)

	return warning, ok && bound && warning.Reason == events.ReasonVolumeMismatch
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
	list := append(slices.Clone(o.eventsOnVolume(podspec.VolumeName(s.UID))), o.eventsOnSnapshot(s.Snapshot, true)...)
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
	list = append(list, o.eventsOnSnapshot(s.Snapshot, false)...)
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

// stateByEvents is the state for a caller who may read only the claim and its events.
func (o *Objects) stateByEvents(s State, claim *corev1.PersistentVolumeClaim) State {
	s.EventsOnly = true
	if claim == nil {
		return s
	}
	if cause, lost := o.lostVolume(claim, nil); lost {
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
	if op, number := attemptIn(newest.Message, string(claim.UID)); op != "" {
		s.Pod, s.Attempt, s.Phase = podspec.Name(op, string(claim.UID), number), number, progress.Failed
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
		return notAsked(o.Now.Sub(claim.CreationTimestamp.Time))
	}
	return explain(reasonDispatcher, "no event of the dispatcher says that anything is wrong", false)
}

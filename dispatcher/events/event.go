package events

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Event is an event about one claim. Of those with one target and Reason, each Key is recorded once for a claim. An
// Event without a Key is not recorded.
type Event struct {
	On      Target
	Pod     *corev1.Pod // the object of OnPod
	Warning bool
	Reason  podspec.Reason
	Message string
	Key     string
	// LogOnly writes a log line and no event.
	LogOnly bool
	// WithPodLog adds the end of the pod's log where administrators read the event, or for others where it is to be
	// found.
	WithPodLog bool
}

// Persists reports whether the event is about something that stays true until somebody changes it. It is recorded again
// while it does.
func (e Event) Persists() bool { return e.Warning || e.Reason == ReasonConcurrency }

// CanWait reports whether the event can be put off while many others wait to be written: it is recorded again as long
// as it is true, and many claims may have it at the same time.
func (e Event) CanWait() bool { return e.Reason == ReasonRunsLong }

// OfMaking reports whether the event says how the volume was made. Such an event is for the claim that the volume was
// made for, and all others are for the claim that has it.
func (e Event) OfMaking() bool {
	switch e.Reason {
	case ReasonSucceeded, ReasonVolumeMended, ReasonVolumeMismatch:
		return true
	}

	return false
}

// Target is the object of an event.
type Target string

// Objects of events.
const (
	OnClaim  Target = "claim"
	OnVolume Target = "volume"
	OnPod    Target = "pod"
	// OnSnapshot is the VolumeSnapshot, or where there is none its VolumeSnapshotContent.
	OnSnapshot Target = "snapshot"
	// OnContent is the VolumeSnapshotContent.
	OnContent Target = "content"
)

// For is the target of an event about an operation's pod: whoever waits for it.
func For(op contract.Operation, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) Target {
	switch {
	case op == contract.Snapshot:
		return OnSnapshot
	case op == contract.DeleteSnapshot:
		return OnContent
	case (op == contract.Delete || podspec.OfAttachment(op)) && volume != nil:
		return OnVolume
	case claim == nil:
		return OnPod
	}

	return OnClaim
}

// Reasons of events about claims and volumes, beside those that podspec has for a pod's outcome. docs/events.md
// explains each.
const (
	ReasonSucceeded        podspec.Reason = "ProvisioningSucceeded"
	ReasonExpanded         podspec.Reason = "ExpansionSucceeded"
	ReasonExpansionRefused podspec.Reason = "ExpansionRefused"
	ReasonConcurrency      podspec.Reason = "ConcurrencyLimitReached"
	ReasonNoVolume         podspec.Reason = "ProvisionerMadeNoVolume"
	ReasonVolumeMismatch   podspec.Reason = "VolumeDoesNotFit"
	ReasonVolumeMended     podspec.Reason = "VolumeMended"
	ReasonVolumeGoing      podspec.Reason = "VolumeBeingDeleted"
	ReasonStrayDelete      podspec.Reason = "StorageMayBeGone"
	ReasonConfigMissing    podspec.Reason = "ProvisionerConfigMissing"
	ReasonPoliciesMissing  podspec.Reason = "AdmissionPoliciesMissing"
	ReasonClaimRefused     podspec.Reason = "ClaimRefused"
	ReasonCloneWaits       podspec.Reason = "CloneSourceNotBound"
	ReasonPodRefused       podspec.Reason = "ProvisionerPodRefused"
	ReasonStartTimeout     podspec.Reason = "ProvisionerStartTimeout"
	ReasonNodeLost         podspec.Reason = "ProvisionerNodeLost"
	ReasonStopped          podspec.Reason = "DeletionStopped"
	ReasonHeld             podspec.Reason = "DeletionHeld"
	ReasonCopied           podspec.Reason = "CloneRunning"
	ReasonLimit            podspec.Reason = "DeletionLimit"
	ReasonRecord           podspec.Reason = "VolumeRecordInvalid"
	ReasonStorageMoved     podspec.Reason = "StorageMoved"
	ReasonMountNotBound    podspec.Reason = "MountNotBound"
	ReasonLeft             podspec.Reason = "StorageLeftBehind"
	ReasonOrphan           podspec.Reason = "OrphanFound"
	ReasonNotOurs          podspec.Reason = "VolumeNotOurs"
	ReasonUndo             podspec.Reason = "ProvisionerUndo"
	ReasonUndone           podspec.Reason = "ProvisionerUndone"
	ReasonRunsLong         podspec.Reason = "ProvisionerRunsLong"
	ReasonGivenUp          podspec.Reason = "StorageGivenUp"
	ReasonSnapshotWaits    podspec.Reason = "SnapshotWaits"
	ReasonSnapshotNotReady podspec.Reason = "SnapshotNotReady"
	ReasonSnapshotRefused  podspec.Reason = "SnapshotRefused"
	ReasonSnapshotTaken    podspec.Reason = "SnapshotTaken"
	ReasonAttachWaits      podspec.Reason = "AttachmentWaits"
	ReasonAttachRefused    podspec.Reason = "AttachmentRefused"
	ReasonStillAttached    podspec.Reason = "VolumeAttached"
)

// BindPods is the remedy where RBAC lets provisioner pods create no volume.
const BindPods = "apply deploy/base again, whose ClusterRoleBinding flex-provisioner-pod lets provisioner pods " +
	"create volumes"

// NotOursToExpand is the message of ReasonExpansionRefused for a volume that no provisioner pod made.
const NotOursToExpand = "the volume is not named pvc-<claim UID>, so no provisioner pod made it, and none can expand " +
	"it: copy the data to a larger claim"

// NotOurs is the message of ReasonNotOurs.
const NotOurs = "the volume is not named pvc-<claim UID>, so no provisioner pod made it: remove its storage by hand, " +
	"then the volume"

// Reasons of events about provisioner ConfigMaps.
const (
	ReasonConfigInvalid   podspec.Reason = "ConfigInvalid"
	ReasonConfigOutdated  podspec.Reason = "ConfigOutdated"
	ReasonConfigDuplicate podspec.Reason = "ConfigDuplicate"
	ReasonClassNotFound   podspec.Reason = "ClassNotFound"
	ReasonClassMismatch   podspec.Reason = "ClassOfOtherProvisioner"
	ReasonConfigUnused    podspec.Reason = "ConfigNotUsed"
	ReasonLiteralToken    podspec.Reason = "LiteralToken"
	ReasonLog             podspec.Reason = "ProvisionerLog"
)

// VolumeDoesNotFit says why the volume does not fit its claim, and what follows where Kubernetes has bound them all the
// same. pod made it, and is nil where that is not known.
func VolumeDoesNotFit(v *corev1.PersistentVolume, faults []string, bound bool, pod *corev1.Pod) Event {
	e := Event{On: OnClaim, Warning: true, Reason: ReasonVolumeMismatch, Key: string(v.UID),
		Message: fmt.Sprintf("volume %s does not fit the claim: %s", v.Name, strings.Join(faults, "; "))}
	if bound {
		e.Key += "/bound"
		e.Message += "; Kubernetes has bound it all the same, and it stays: correct the provisioner, then delete the " +
			"claim, and create it again"
	}

	if pod != nil {
		e.Message += fmt.Sprintf(" (pod %s/%s)", pod.Namespace, pod.Name)
	}

	return e
}

// VolumeGoing says that somebody deleted a volume that is in use, and what holds it.
func VolumeGoing(v *corev1.PersistentVolume) Event {
	return Event{On: OnClaim, Warning: true, Reason: ReasonVolumeGoing, Key: "going/" + string(v.UID),
		Message: fmt.Sprintf("somebody deleted volume %s, which the claim has: it goes with the claim, or when "+
			"somebody removes its last finalizer (%s); a deletion cannot be taken back: copy the data to another claim",
			v.Name, strings.Join(v.Finalizers, ", "))}
}

// VolumeMended says what a new volume lacked and was given. pod made it.
func VolumeMended(v *corev1.PersistentVolume, pod *corev1.Pod, faults []string) Event {
	return Event{On: OnClaim, Pod: pod, Warning: true, Reason: ReasonVolumeMended, Key: "mended/" + string(v.UID),
		Message: fmt.Sprintf("volume %s was mended, its provisioner made it so, or somebody changed it since: %s",
			v.Name, strings.Join(faults, "; "))}
}

// VolumeKept says what of a new volume is not as its class says, and stays, since an administrator may want it so. pod
// made it.
func VolumeKept(v *corev1.PersistentVolume, pod *corev1.Pod, kept string) Event {
	return Event{On: OnClaim, Pod: pod, Warning: true, Reason: ReasonVolumeMended, Key: "kept/" + string(v.UID),
		Message: fmt.Sprintf("volume %s was not mended, its storage stays when its claim is deleted: %s; unless "+
			"an administrator wants that: kubectl patch pv %[1]s -p "+
			"'{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Delete\"}}'", v.Name, kept)}
}

// StrayDelete says that a delete which was not created for the volume may have removed its storage.
func StrayDelete(v *corev1.PersistentVolume, pod *corev1.Pod) Event {
	message := fmt.Sprintf("pod %s was ordered to remove what is left of an earlier attempt, and volume %s was "+
		"created beside it: check the volume's data", pod.Name, v.Name)
	if pod.Annotations[contract.AnnVolumeUID] == string(v.UID) {
		message = fmt.Sprintf("pod %s was ordered to remove the storage of volume %s, which somebody keeps since: "+
			"check the volume's data", pod.Name, v.Name)
	}

	return Event{On: OnVolume, Pod: pod, Warning: true, Reason: ReasonStrayDelete, Key: "stray/" + pod.Name,
		Message: message}
}

// ProvisioningSucceeded says which pod made the volume.
func ProvisioningSucceeded(v *corev1.PersistentVolume, pod *corev1.Pod) Event {
	return Event{On: OnClaim, Reason: ReasonSucceeded, Key: string(v.UID),
		Message: fmt.Sprintf("pod %s made volume %s", pod.Name, v.Name)}
}

// ExpansionSucceeded says which pod enlarged the volume's storage. onNode says that the node still has to do its part.
func ExpansionSucceeded(v *corev1.PersistentVolume, pod *corev1.Pod, bytes int64, onNode bool) Event {
	size := resource.NewQuantity(bytes, resource.BinarySI).String()
	message := fmt.Sprintf("pod %s expanded volume %s to %s", pod.Name, v.Name, size)
	if onNode {
		message += "; its node finishes it once a pod uses the claim"
	}

	return Event{On: OnClaim, Reason: ReasonExpanded, Key: "expanded/" + pod.Name + "/" + size, Message: message}
}

// ExpansionWaits says why no pod is created to expand the volume yet.
func ExpansionWaits(reason podspec.Reason, why string) Event {
	return Event{On: OnClaim, Warning: true, Reason: reason, Key: string(reason) + "/" + why,
		Message: "the volume waits to be expanded: " + why}
}

// SnapshotTaken says which pod took the snapshot.
func SnapshotTaken(handle string, pod *corev1.Pod) Event {
	return Event{On: OnSnapshot, Pod: pod, Reason: ReasonSnapshotTaken, Key: "taken/" + handle, LogOnly: true,
		Message: fmt.Sprintf("pod %s took snapshot %s", pod.Name, handle)}
}

// SnapshotWaits says why no pod is created for a snapshot yet.
func SnapshotWaits(on Target, reason podspec.Reason, why string) Event {
	return Event{On: on, Warning: true, Reason: reason, Key: "snapshot/" + string(reason) + "/" + why, Message: why}
}

// SnapshotLeft says that nobody removed a snapshot whose content is gone. pod may have taken it.
func SnapshotLeft(handle string, pod *corev1.Pod) Event {
	return Event{On: OnPod, Pod: pod, Warning: true, Reason: ReasonLeft, Key: "left/" + pod.Name,
		Message: fmt.Sprintf("the VolumeSnapshotContent of snapshot %s is gone, and no pod removed the snapshot: "+
			"somebody took its finalizer off; look for it on the storage of class %s, and remove it by hand", handle,
			pod.Annotations[contract.AnnClass])}
}

// AttachmentWaits says why no pod attaches a volume to a node, or detaches it.
func AttachmentWaits(reason podspec.Reason, node, why string) Event {
	return Event{On: OnVolume, Warning: true, Reason: reason, Message: why,
		Key: "attachment/" + node + "/" + string(reason) + "/" + why}
}

// ContentLeft says that nobody deletes a content whose VolumeSnapshot is gone.
func ContentLeft(content string) Event {
	return Event{On: OnContent, Warning: true, Reason: ReasonLeft, Key: "content/" + content,
		Message: fmt.Sprintf("the VolumeSnapshot of this content is gone, and its snapshot stays: if nobody needs it: "+
			"kubectl delete volumesnapshotcontent %s", content)}
}

// GivenUp says that a volume goes without its storage, and where that is. The volume is one that was read from the API
// server.
func GivenUp(v *corev1.PersistentVolume, since time.Time) Event {
	return Event{On: OnVolume, Warning: true, Reason: ReasonGivenUp, Key: "given-up/" + string(v.UID),
		Message: fmt.Sprintf("the volume is deleted without its storage, %s: no Node with %s has existed since %s "+
			"(give-up-after); if its disk comes back, remove the storage by hand",
			podspec.MountSource(v), podspec.NodesOf(v), since.UTC().Format(time.RFC3339))}
}

// RecordLost says that the volume does not say any more whose it is.
func RecordLost(why string) Event {
	return Event{On: OnVolume, Warning: true, Reason: ReasonRecord, Key: "lost/" + why, Message: why}
}

// ExpansionRefused says why no pod will be created to expand the volume.
func ExpansionRefused(why string) Event {
	return Event{On: OnClaim, Warning: true, Reason: ReasonExpansionRefused, Key: "expansion/" + why, Message: why}
}

// ClaimWaits says why no pod is created for the claim yet.
func ClaimWaits(reason podspec.Reason, why string) Event {
	return Event{On: OnClaim, Warning: true, Reason: reason, Key: string(reason) + "/" + why, Message: why}
}

// DeletionWaits says why storage is not removed yet. madeBy is the pod of the attempt to undo, nil for a volume.
func DeletionWaits(on Target, madeBy *corev1.Pod, reason podspec.Reason, why string) Event {
	return Event{On: on, Pod: madeBy, Warning: true, Reason: reason, Key: string(reason) + "/" + why,
		Message: "storage waits to be removed: " + why}
}

// Undo says that the storage of earlier attempts is removed before the next one.
func Undo(madeBy *corev1.Pod) Event {
	return Event{On: OnClaim, Reason: ReasonUndo, Key: "undo/" + madeBy.Name,
		Message: "what is asked for changed: what earlier attempts may have made is removed first"}
}

// Abandoned says that nobody waits for what a pod makes.
func Abandoned(on Target, pod *corev1.Pod) Event {
	return Event{On: on, Pod: pod, Reason: ReasonUndo, Key: "abandoned/" + pod.Name,
		Message: fmt.Sprintf("the claim is deleted: the storage that the pod makes is removed once the pod has ended; "+
			"to end it now: kubectl -n %s delete pod %s", pod.Namespace, pod.Name)}
}

// Undone says that the undo has succeeded. pod did it.
func Undone(pod *corev1.Pod) Event {
	return Event{On: OnClaim, Reason: ReasonUndone, Key: string(pod.UID),
		Message: "what earlier attempts had made was removed"}
}

// AttemptProblem says what keeps a pod from starting, or how it ended.
func AttemptProblem(on Target, pod *corev1.Pod, reason podspec.Reason, message string) Event {
	return Event{On: on, Pod: pod, Warning: true, Reason: reason, Key: pod.Name + "/" + string(reason),
		Message: fmt.Sprintf("%s (pod %s/%s)", message, pod.Namespace, pod.Name)}
}

// RunsLong says that a pod runs for long, and by when it ends.
func RunsLong(on Target, pod *corev1.Pod, end time.Time, timeout time.Duration) Event {
	return Event{On: on, Pod: pod, Reason: ReasonRunsLong, Key: pod.Name + "/" + string(ReasonRunsLong),
		Message: fmt.Sprintf("the pod still runs; %s; administrators read its log by: kubectl -n %s logs %s",
			EndsBy(end, "timeout", timeout), pod.Namespace, pod.Name)}
}

// EndsBy says by when a pod ends, by a key of the ConfigMap.
func EndsBy(end time.Time, key string, limit time.Duration) string {
	return fmt.Sprintf("it ends at %s at the latest (%s %s)",
		end.UTC().Format("15:04:05Z"), key, duration.HumanDuration(limit))
}

// PodRefused says why the API server, or the class's configuration, made no pod for an attempt.
func PodRefused(on Target, madeBy *corev1.Pod, err error) Event {
	message := podspec.EventMessage(err.Error())
	if lacks := NotGranted(err); lacks != "" { // whole, since it ends with the line to add
		message = "no pod is created: " + lacks
	}

	return Event{On: on, Pod: madeBy, Warning: true, Reason: ReasonPodRefused, Key: "refused-pod/" + message,
		Message: message}
}

// PodRefusedForLong is the event on a refusal that may be over soon, and lasts. What the API server says may have other
// words each time.
func PodRefusedForLong(e Event) Event {
	e.Key = "refused-pod/for-long"
	const remedy = "; this lasts, and the dispatcher goes on trying: " +
		"an administrator has to look at the API server and its webhooks"
	e.Message = podspec.Clip(e.Message, podspec.MaxEvent-len(remedy)) + remedy

	return e
}

// NotGranted is what the policy on pods says of a pod that asks for privileges which its ServiceAccount is not granted:
// these, and the line that grants them. It is empty for every other error.
func NotGranted(err error) string {
	_, denial, refused := strings.Cut(podspec.OneLine(err.Error()), " denied request: ")
	if !refused || !strings.HasPrefix(denial, "ServiceAccount ") || !strings.Contains(denial, " is not granted ") {
		return ""
	}

	return denial
}

// ConcurrencyLimitReached says that the class has as many pods as it may have. It is recorded once for each wait: the
// history of a claim is forgotten when its pod is created.
func ConcurrencyLimitReached(on Target, madeBy *corev1.Pod, class string, used, limit int) Event {
	return Event{On: on, Pod: madeBy, Reason: ReasonConcurrency, Key: string(ReasonConcurrency),
		Message: fmt.Sprintf("waiting for other provisioner pods of StorageClass %s to end: %d of at most %d "+
			"(max-concurrent) are running or starting; namespaces take turns, and no action is needed",
			class, used, limit)}
}

package dispatcher

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// plan is what to do about one claim's UID now. Its parts are carried out in the order of the fields.
type plan struct {
	// confirm says that the plan was made on a belief that a cache may hold too long, such as that no volume exists. It is
	// made again on facts read from the API server before anything is done.
	confirm bool
	// check is the same for the volume alone.
	check   bool
	reports []report
	// mend is what a new volume lacks and can be given.
	mend *podspec.Mending
	// cloneOf is the claim that a new volume is a clone of, for the claim to say so; empty for none.
	cloneOf string
	// grow writes the volume's capacity: its storage is known to have it.
	grow *resource.Quantity
	// mark writes how an expansion stands into the claim's status. Before an attempt: quotas count what is allocated.
	mark *marking
	// create starts an attempt.
	create *order
	// stop deletes pods that have not started; their records stay until they are final.
	stop []*corev1.Pod
	// dropVolume deletes the PersistentVolume object, whose storage is gone.
	dropVolume bool
	// reschedule takes the selected node off the claim, so that the scheduler chooses again.
	reschedule bool
	// settle ends attempts: their outcome has been acted on.
	settle []*corev1.Pod
	// retire ends attempts too, but leaves the first and the newest pod of each operation there without their finalizer.
	// While a claim waits, the numbers of its attempts only grow and the first one's name stays taken: a dispatcher whose
	// cache lags, or knows of none, orders a name that exists.
	retire []*corev1.Pod
	// held is why storage that is to be removed waits for an administrator, or empty.
	held podspec.Reason
	// handOver asks the library to look at the claim again. It may have dropped it while a volume existed.
	handOver bool
	// forget says that nothing is left to do for this UID.
	forget bool
	// again is when to look again if nothing changes; zero for never.
	again time.Time
}

// order is an attempt to start.
type order struct {
	op     contract.Operation
	number int
	// record is for an undo the attempt whose storage is to be removed.
	record *corev1.Pod
	// node the pod is bound to, or empty.
	node string
	// size in bytes that an expansion is to reach.
	size int64
	// suspect marks an expansion that follows one which may have reached a size without saying so.
	suspect bool
	// replaces are failed attempts that the new one makes superfluous once it exists.
	replaces []*corev1.Pod
}

// report is an event. Each key is reported once for a UID.
type report struct {
	on      target
	pod     *corev1.Pod // for onPod
	warning bool
	reason  podspec.Reason
	message string
	key     string
	// lone says that it is told of a claim that had trouble, or that comes alone, and not in a burst: each event is a write,
	// and who waits for a thousand claims sees that they are bound.
	lone bool
	// logs asks for the last log lines of the pod, for the administrator, and where the class says so for the user too.
	logs bool
}

type target string

const (
	onClaim  target = "claim"
	onVolume target = "volume"
	onPod    target = "pod"
)

// Reasons of events beside those that podspec tells. docs/events.md explains each.
const (
	ReasonSucceeded      podspec.Reason = "ProvisioningSucceeded"
	ReasonNoVolume       podspec.Reason = "ProvisionerMadeNoVolume"
	ReasonVolumeMismatch podspec.Reason = "VolumeDoesNotFit"
	ReasonVolumeMended   podspec.Reason = "VolumeMended"
	ReasonConfigMissing  podspec.Reason = "ProvisionerConfigMissing"
	ReasonUncontained    podspec.Reason = "AdmissionPoliciesMissing"
	ReasonClaimRefused   podspec.Reason = "ClaimRefused"
	ReasonCloneWaits     podspec.Reason = "CloneSourceNotBound"
	ReasonPodRefused     podspec.Reason = "ProvisionerPodRefused"
	ReasonStartTimeout   podspec.Reason = "ProvisionerStartTimeout"
	ReasonStopped        podspec.Reason = "DeletionStopped"
	ReasonHeld           podspec.Reason = "DeletionHeld"
	ReasonLimit          podspec.Reason = "DeletionLimit"
	ReasonRecord         podspec.Reason = "VolumeRecordInvalid"
	ReasonLeft           podspec.Reason = "StorageLeftBehind"
	ReasonOrphan         podspec.Reason = "OrphanFound"
	ReasonNotOurs        podspec.Reason = "VolumeNotOurs"
	ReasonLog            podspec.Reason = "ProvisionerLog"
	ReasonUndo           podspec.Reason = "ProvisionerUndo"
	ReasonUndone         podspec.Reason = "ProvisionerUndone"
)

func (p *plan) look(at time.Time) {
	if p.again.IsZero() || at.Before(p.again) {
		p.again = at
	}
}

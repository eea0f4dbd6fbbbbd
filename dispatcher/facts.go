package dispatcher

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// facts is all that is known about one claim's UID at one moment. decide looks at nothing else.
type facts struct {
	now   time.Time
	uid   string
	class string
	// claim with this UID, or nil.
	claim *corev1.PersistentVolumeClaim
	// wanted says that the library handed the claim over to be provisioned.
	wanted bool
	// provisioner is the name that this dispatcher serves.
	provisioner string
	// key signs the record of a volume.
	key podspec.RecordKey
	// terms is the claim's StorageClass, or nil.
	terms *storagev1.StorageClass
	// origin is what the claim asks to be a clone of.
	origin origin
	// volume is pvc-<uid>, or nil.
	volume *corev1.PersistentVolume
	// released says that the library asked for the volume's storage to be deleted.
	released bool
	// config in force for the class, or nil, and what is wrong with its ConfigMap, for users to read.
	config        *configmaps.Config
	configProblem string
	// uncontained says what is missing for provisioner pods to be safe, empty where nothing is.
	uncontained string
	// stopped says, for users to read, that an administrator stopped all deletions; empty where nobody did.
	stopped string
	// heir is the claim of the name that the released volume names, but with another UID, or nil.
	heir *corev1.PersistentVolumeClaim
	// doomed counts the old volumes of the class whose deletion was begun lately or waits, as far as one above deleteLimit;
	// 0 for a limit means none.
	doomed, deleteLimit int
	// missed says that a pod came and went which the cache never showed.
	missed bool
	// seen is the state of the intake before the facts were gathered.
	seen uint64
	// attempts of all operations, oldest first: pods with the finalizer.
	attempts []attempt
	// kept are failed pods whose outcome has been acted on, and which stay a while for their logs.
	kept []attempt
}

// attempt is a pod as a record.
type attempt struct {
	pod     *corev1.Pod
	op      contract.Operation
	number  int
	outcome podspec.Outcome
	// size in bytes is for an expansion what it was asked to reach.
	size int64
}

func newAttempt(pod *corev1.Pod, trouble string) attempt {
	op, _, number, _ := podspec.ParseName(pod.Name)
	outcome := podspec.OutcomeOf(pod)
	if outcome.Phase == podspec.Starting && outcome.Reason == podspec.ReasonNone && trouble != "" {
		outcome.Reason, outcome.Message = podspec.ReasonPodConfig, trouble
	}
	a := attempt{pod: pod, op: op, number: number, outcome: outcome}
	if op == contract.Expand {
		if request, err := podspec.RequestOf(pod); err == nil {
			a.size = request.SizeBytes
		}
	}
	return a
}

// node is where storage may be that the attempt, or one before it, has made; empty where nobody knows.
func (a attempt) node() string {
	return cmp.Or(a.outcome.Node, a.pod.Annotations[contract.AnnNode])
}

// sortAttempts puts the oldest first. Times have whole seconds, so the number decides between two of one second.
func sortAttempts(attempts []attempt) {
	slices.SortFunc(attempts, compare)
}

func compare(a, b attempt) int {
	return cmp.Or(a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time), cmp.Compare(a.number, b.number))
}

func older(a, b attempt) bool { return compare(a, b) < 0 }

// newest says that no later pod of the operation is known.
func (f *facts) newest(a attempt) bool {
	for _, other := range append(slices.Clone(f.attempts), f.kept...) {
		if other.op == a.op && other.pod.UID != a.pod.UID && !older(other, a) {
			return false
		}
	}
	return true
}

func (f *facts) of(op contract.Operation) []attempt {
	var list []attempt
	for _, a := range f.attempts {
		if a.op == op {
			list = append(list, a)
		}
	}
	return list
}

// live says that somebody still waits for the claim.
func (f *facts) live() bool { return f.claim != nil && f.claim.DeletionTimestamp == nil }

func unfinished(attempts []attempt) (attempt, bool) {
	for _, a := range attempts {
		if !a.outcome.Final() {
			return a, true
		}
	}
	return attempt{}, false
}

func last(attempts []attempt) (attempt, bool) {
	if len(attempts) == 0 {
		return attempt{}, false
	}
	return attempts[len(attempts)-1], true
}

// suspect is the oldest attempt that may have made storage. Its request finds that storage again.
func suspect(attempts []attempt) (attempt, bool) {
	for _, a := range attempts {
		if a.outcome.MayHaveMade() || a.pod.Annotations[contract.AnnSuspect] != "" {
			return a, true
		}
	}
	return attempt{}, false
}

// next is the number of the operation's next attempt. Names of kept pods are taken too.
func (f *facts) next(op contract.Operation) int {
	number := 0
	for _, list := range [][]attempt{f.kept, f.attempts} {
		for _, a := range list {
			if a.op == op {
				number = (a.number + 1) % (podspec.MaxAttempt + 1)
			}
		}
	}
	return number
}

func (f *facts) claimNode() string {
	if f.claim == nil {
		return ""
	}
	if f.terms == nil || f.terms.VolumeBindingMode == nil || *f.terms.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return ""
	}
	return f.claim.Annotations[annSelectedNode]
}

// annSelectedNode is the scheduler's choice for a claim that waits for its first consumer. The claim's author can write it
// as well: where nobody chose it means nothing, and elsewhere the pod still goes through the scheduler, with the class's
// node selector, so that it cannot be sent where the class has nothing to do.
const annSelectedNode = "volume.kubernetes.io/selected-node"

// identity is what new storage of the class would be found by.
func (f *facts) identity() contract.Identity {
	identity := contract.Identity{Properties: f.config.Properties}
	if f.terms != nil {
		identity.Parameters = f.terms.Parameters
	}
	return identity
}

func sameIdentity(a, b contract.Identity) bool {
	return maps.Equal(a.Properties, b.Properties) && maps.Equal(a.Parameters, b.Parameters)
}

// reclaim is the class's policy, or nil where the class is gone.
func (f *facts) reclaim() *corev1.PersistentVolumeReclaimPolicy {
	if f.terms == nil {
		return nil
	}
	return f.terms.ReclaimPolicy
}

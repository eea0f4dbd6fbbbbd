package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Kind of a finding.
type Kind string

// The kinds.
const (
	// Storage is on the backend, and no volume, claim or pod knows it.
	Storage Kind = "storage"
	// Secret is for a volume that is not there.
	Secret Kind = "secret"
	// Pod has ended, and what became of it should have been acted on long ago.
	Pod Kind = "pod"
	// Released is a volume whose storage should have been removed long ago.
	Released Kind = "released-volume"
	// Unprotected is a volume that would go without its storage, since it has no finalizer.
	Unprotected Kind = "unprotected-volume"
	// Empty is a volume whose storage is not on the backend.
	Empty Kind = "empty-volume"
)

// Kinds are all of them.
var Kinds = []Kind{Storage, Secret, Pod, Released, Unprotected, Empty}

// Finding is one thing that should not be.
type Finding struct {
	Kind Kind
	// Name of the object, with its namespace where it has one, or of the storage, quoted where that is no name of a volume.
	Name string
	// Why it was found, one sentence.
	Why string
	// Command would remove or mend it. It is for a person who has looked, and is never run by this package. What an
	// image says of it is a comment to a shell.
	Command string
	// About is the object in Kubernetes; nil for storage.
	About runtime.Object
}

// Objects are what Kubernetes knows. They are only read.
type Objects struct {
	Claims  []*corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	// Pods of the provisioners' namespace.
	Pods []*corev1.Pod
	// Secrets with the label flex-provisioner.io/claim-uid, of all namespaces; none where nobody may read them.
	Secrets []*corev1.Secret
}

// Listing is what a provisioner says it finds on the storage.
type Listing struct {
	Config *configmaps.Config
	// Classes are the StorageClasses whose storage is looked at: they have one ConfigMap and the same Parameters.
	Classes []string
	// Parameters that the provisioner was told.
	Parameters map[string]string
	// Began is when the storage was asked.
	Began time.Time
	// Storage by its name.
	Storage map[string]contract.Storage
	// Complete reports whether all places were looked at, so that what is not there is nowhere.
	Complete bool
}

// State is all that an audit looks at.
type State struct {
	Now time.Time
	// Provisioner is the name whose volumes are looked at.
	Provisioner string
	// Objects as they are after the storage was listed.
	Objects
	// Before are the objects as they were before. What was known then or is now is no orphan: it was made or removed
	// meanwhile.
	Before Objects
	// Listings of the classes whose provisioner can list.
	Listings []Listing
}

// patience is how long anything may take that takes its course.
const patience = time.Hour

// Compare returns what should not be, sorted by kind and name.
func Compare(s State) []Finding {
	known, waiting := s.known(), s.waiting()
	var found []Finding
	for _, v := range s.Volumes {
		found = append(found, s.volume(v)...)
	}
	for _, pod := range s.Pods {
		found = append(found, s.pod(pod, waiting)...)
	}
	for _, secret := range s.Secrets {
		if uid := secret.Labels[contract.LabelClaimUID]; !known[uid] && s.Now.Sub(secret.CreationTimestamp.Time) > patience {
			found = append(found, Finding{Secret, secret.Namespace + "/" + secret.Name, "there is no claim, volume or pod with its UID " + uid,
				fmt.Sprintf("kubectl -n %s delete secret %s", secret.Namespace, secret.Name), secret})
		}
	}
	for _, l := range s.Listings {
		found = append(found, s.storage(l, known)...)
	}
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)), cmp.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(found, func(a, b Finding) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Command == b.Command })
}

// known are the UIDs of claims that exist, or that a volume or pod exists for, now or before the storage was listed.
func (s State) known() map[string]bool {
	uids := map[string]bool{}
	for _, o := range []Objects{s.Before, s.Objects} {
		for _, c := range o.Claims {
			uids[string(c.UID)] = true
		}
		for _, v := range o.Volumes {
			if uid, ok := podspec.ClaimUIDOf(v.Name); ok {
				uids[uid] = true
			}
		}
		for _, pod := range o.Pods {
			if _, uid, _, ok := podspec.ParseName(pod.Name); ok {
				uids[uid] = true
			}
		}
	}
	delete(uids, "")
	return uids
}

// waiting are the UIDs whose pods are a record that is still needed: of a claim without a volume, or of a volume.
func (s State) waiting() map[string]bool {
	uids := map[string]bool{}
	for _, c := range s.Claims {
		if c.Spec.VolumeName == "" {
			uids[string(c.UID)] = true
		}
	}
	for _, v := range s.Volumes {
		if uid, ok := podspec.ClaimUIDOf(v.Name); ok && v.Status.Phase != corev1.VolumeBound {
			uids[uid] = true
		}
	}
	return uids
}

func (s State) volume(v *corev1.PersistentVolume) []Finding {
	if v.Annotations[contract.ProvisionedBy] != s.Provisioner || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	var found []Finding
	if v.Status.Phase == corev1.VolumeReleased && s.Now.Sub(releasedAt(v)) > patience {
		found = append(found, Finding{Released, v.Name, "its storage was to be removed more than an hour ago; its events in the namespace default say what it waits for",
			fmt.Sprintf("kubectl annotate pv %s %s=true", v.Name, contract.AnnAllowDelete), v})
	}
	if v.DeletionTimestamp == nil && !slices.Contains(v.Finalizers, contract.VolumeFinalizer) && s.Now.Sub(v.CreationTimestamp.Time) > patience {
		found = append(found, Finding{Unprotected, v.Name, "it has no finalizer, so that its storage would stay if it were deleted",
			fmt.Sprintf(`kubectl patch pv %s -p '{"metadata": {"finalizers": [%q]}}'`, v.Name, contract.VolumeFinalizer), v})
	}
	return found
}

// releasedAt is when the volume came to its phase, as far as is known.
func releasedAt(v *corev1.PersistentVolume) time.Time {
	if at := v.Status.LastPhaseTransitionTime; at != nil {
		return at.Time
	}
	return v.CreationTimestamp.Time
}

func (s State) pod(pod *corev1.Pod, waiting map[string]bool) []Finding {
	outcome := podspec.OutcomeOf(pod)
	if !outcome.Final() || s.Now.Sub(outcome.Finished) <= patience {
		return nil
	}
	name, command := pod.Namespace+"/"+pod.Name, fmt.Sprintf("kubectl -n %s delete pod %s", pod.Namespace, pod.Name)
	if pod.Labels[contract.LabelOperation] == string(contract.List) {
		return []Finding{{Pod, name, "an audit left it behind", command, pod}}
	}
	op, uid, _, ours := podspec.ParseName(pod.Name)
	if !ours || waiting[uid] || !slices.Contains(pod.Finalizers, contract.PodFinalizer) {
		return nil
	}
	why := "it ended more than an hour ago, and nobody waits for it"
	if outcome.MayHaveMade() && op == contract.Provision {
		why = "its claim is gone, and what it may have made has not been removed; its events say why"
	}
	return []Finding{{Pod, name, why, fmt.Sprintf(`kubectl -n %s patch pod %s -p '{"metadata": {"$deleteFromPrimitiveList/finalizers": [%q]}}' && %s`,
		pod.Namespace, pod.Name, contract.PodFinalizer, command), pod}}
}

func (s State) storage(l Listing, known map[string]bool) []Finding {
	var found []Finding
	for _, name := range slices.Sorted(maps.Keys(l.Storage)) {
		if uid, ok := podspec.ClaimUIDOf(name); !ok || !known[uid] {
			found = append(found, Finding{Kind: Storage, Name: shownName(name), Command: advice(l.Storage[name]),
				Why: fmt.Sprintf("class %s has it, and there is no claim, volume or pod for it", l.Classes[0])})
		}
	}
	if !l.Complete {
		return found
	}
	for _, v := range s.Volumes {
		if _, there := l.Storage[v.Name]; !there && s.belongs(v, l) {
			found = append(found, Finding{Empty, v.Name, fmt.Sprintf("class %s does not have its storage", v.Spec.StorageClassName), s.removeEmpty(v), v})
		}
	}
	return found
}

// belongs reports whether the volume was there when the storage was listed, and lies where the listing looked.
func (s State) belongs(v *corev1.PersistentVolume, l Listing) bool {
	if v.Annotations[contract.ProvisionedBy] != s.Provisioner || !slices.Contains(l.Classes, v.Spec.StorageClassName) ||
		v.DeletionTimestamp != nil || v.Status.Phase == corev1.VolumeReleased || !v.CreationTimestamp.Time.Before(l.Began) {
		return false
	}
	identity, err := podspec.IdentityOf(v)
	return err == nil && maps.Equal(identity.Properties, l.Config.Properties) && maps.Equal(identity.Parameters, l.Parameters)
}

// removeEmpty names the claim only where it is bound to this very volume: a volume may say anything of whose it is, and the
// command would delete somebody else's.
func (s State) removeEmpty(v *corev1.PersistentVolume) string {
	for _, c := range s.Claims {
		if ref := v.Spec.ClaimRef; ref != nil && c.UID == ref.UID && c.Namespace == ref.Namespace && c.Name == ref.Name && c.Spec.VolumeName == v.Name {
			return fmt.Sprintf("kubectl -n %s delete pvc %s", c.Namespace, c.Name)
		}
	}
	return "kubectl delete pv " + v.Name
}

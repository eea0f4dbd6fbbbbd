package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Kind of a finding.
type Kind string

// The kinds.
const (
	// Storage is storage on the backend without a volume, claim or pod.
	Storage Kind = "storage"
	// Secret is a Secret of a volume that does not exist.
	Secret Kind = "secret"
	// Pod is a pod that ended long ago, and whose outcome has not been acted on.
	Pod Kind = "pod"
	// Released is a volume whose storage should have been removed long ago.
	Released Kind = "released-volume"
	// Unprotected is a volume without the finalizer. If it were deleted, its storage would stay.
	Unprotected Kind = "unprotected-volume"
	// Unrecorded is a volume of one of the classes that does not say who made it.
	Unrecorded Kind = "unrecorded-volume"
	// Empty is a volume whose storage is not on the backend.
	Empty Kind = "empty-volume"
	// ReleasedContent is a content whose snapshot should have been removed long ago, or whose VolumeSnapshot is gone.
	ReleasedContent Kind = "released-content"
	// TwinContent is a content that has the same snapshot as another one.
	TwinContent Kind = "twin-content"
	// UnrecordedContent is a content that does not say of which volume or class its snapshot is.
	UnrecordedContent Kind = "unrecorded-content"
	// UnservedContent is a content whose class is not served, or has no snapshots.
	UnservedContent Kind = "unserved-content"
)

// Kinds are all kinds, in the order of the report.
var Kinds = []Kind{Storage, Secret, Pod, Released, Unprotected, Unrecorded, Empty, ReleasedContent, TwinContent,
	UnrecordedContent, UnservedContent}

// Finding is an object or storage that somebody should look at.
type Finding struct {
	Kind Kind
	// Name of the object, with its namespace where it has one, or of the storage, quoted where no volume can have that
	// name.
	Name string
	// Why is the reason, in one sentence.
	Why string
	// Command removes or repairs it. It is for an administrator, and this package never runs it. What an image wrote is
	// in a shell's comment.
	Command string
	// About is the object in Kubernetes; nil for storage.
	About runtime.Object
}

// Objects are the objects of the cluster. They are only read.
type Objects struct {
	Claims  []*corev1.PersistentVolumeClaim
	Volumes []*corev1.PersistentVolume
	// Pods of the provisioners' namespace, and the ControllerRevisions that keep the records of those that are gone.
	Pods  []*corev1.Pod
	Saved []*appsv1.ControllerRevision
	// Classes are the names of the provisioner's StorageClasses; empty where nobody asks for volumes that do not say
	// who made them.
	Classes []string
	// Secrets of all namespaces with the label flex-provisioner.io/claim-uid; empty where the caller may not read them.
	Secrets []*corev1.Secret
}

// Listing is the storage that one provisioner lists.
type Listing struct {
	Config *configmaps.Config
	// Classes are the StorageClasses that the list is for. They have the same ConfigMap and the same Parameters.
	Classes []string
	// Parameters are those of the provisioner's request.
	Parameters map[string]string
	// Began is when the listing began.
	Began time.Time
	// Storage by its name.
	Storage map[string]contract.Storage
	// Nodes are those whose storage was listed, where the class's storage is on nodes.
	Nodes []*corev1.Node
	// Complete reports whether all was listed that was asked. Only then is storage that is not listed missing.
	Complete bool
}

// lookedAt reports whether the storage of a volume is in what was listed. Of a node that takes no pods nothing is
// known.
func (l Listing) lookedAt(v *corev1.PersistentVolume) bool {
	if !l.Config.NodeLocal {
		return true
	}

	names, selectors, ok := podspec.NodeLocal(l.Config, v)

	return ok && slices.ContainsFunc(l.Nodes, func(node *corev1.Node) bool {
		matches := func(selector labels.Selector) bool { return selector.Matches(labels.Set(node.Labels)) }
		return slices.Contains(names, node.Name) || slices.ContainsFunc(selectors, matches)
	})
}

// State is the input of Compare.
type State struct {
	Now time.Time
	// Provisioner is the provisioner name whose volumes are compared.
	Provisioner string
	// Objects were read after the storage was listed.
	Objects
	// Before are the objects that were read before the storage was listed. Storage that has an object in either set is
	// not left over: it was made or removed meanwhile.
	Before Objects
	// Listings of the classes whose provisioner can list.
	Listings []Listing
	// Snapshots were read before the pods. They are nil where they cannot be read.
	Snapshots *Snapshots
}

// gracePeriod is how long an object may wait for the dispatcher before it is a finding.
const gracePeriod = time.Hour

// Compare returns the findings, sorted by kind and name.
func Compare(s State) []Finding {
	known, needed := s.known(), s.needed()
	var found []Finding
	for _, v := range s.Volumes {
		found = append(found, s.volume(v)...)
	}

	for _, pod := range s.Pods {
		found = append(found, s.pod(pod, needed)...)
	}

	for _, record := range s.Saved {
		found = append(found, s.saved(record, needed)...)
	}

	for _, secret := range s.Secrets {
		uid := secret.Labels[contract.LabelClaimUID]
		if known[uid] || s.Now.Sub(secret.CreationTimestamp.Time) <= gracePeriod {
			continue
		}

		found = append(found, Finding{
			Kind: Secret, Name: secret.Namespace + "/" + secret.Name, About: secret,
			Why:     "there is no claim, volume or pod with its UID " + uid,
			Command: fmt.Sprintf("kubectl -n %s delete secret %s", secret.Namespace, secret.Name),
		})
	}

	for _, l := range s.Listings {
		found = append(found, s.storage(l, known)...)
	}

	found = append(found, s.contents()...)
	slices.SortFunc(found, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Kinds, a.Kind), slices.Index(Kinds, b.Kind)),
			cmp.Compare(a.Name, b.Name),
		)
	})

	return slices.CompactFunc(found, func(a, b Finding) bool {
		return a.Kind == b.Kind && a.Name == b.Name && a.Command == b.Command
	})
}

// known is the set of UIDs of claims that have a claim, volume or pod, now or before the storage was listed.
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

		for _, record := range o.Saved {
			if _, uid, _, ok := podspec.ParseName(record.Name); ok && podspec.SavedPod(record) != nil {
				uids[uid] = true
			}
		}
	}

	delete(uids, "")

	return uids
}

// needed is the set of UIDs of claims and snapshots whose pods the dispatcher still needs: the claim has no volume, or
// the volume is not bound, or the snapshot has an object.
func (s State) needed() map[string]bool {
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

	if s.Snapshots != nil {
		s.Snapshots.keep(uids)
	}

	return uids
}

func (s State) volume(v *corev1.PersistentVolume) []Finding {
	by, recorded := v.Annotations[contract.ProvisionedBy]
	switch {
	case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
		return nil
	case !recorded && s.ofClasses(v) && s.Now.Sub(v.CreationTimestamp.Time) > gracePeriod:
		return []Finding{{Unrecorded, v.Name, podspec.RecordLost(v), podspec.MendRecord(v, s.Provisioner), v}}
	case by != s.Provisioner:
		return nil
	}

	var found []Finding
	free := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	if free && s.Now.Sub(podspec.ReleasedAt(v)) > gracePeriod {
		found = append(found, Finding{
			Kind: Released, Name: v.Name, About: v,
			Why: "its storage was to be removed more than an hour ago; " +
				"its events in the namespace default say what it waits for",
			Command: fmt.Sprintf("kubectl annotate pv %s %s=true", v.Name, contract.AnnAllowDelete),
		})
	}

	unprotected := v.DeletionTimestamp == nil && !slices.Contains(v.Finalizers, contract.VolumeFinalizer)
	if unprotected && s.Now.Sub(v.CreationTimestamp.Time) > gracePeriod {
		found = append(found, Finding{
			Kind: Unprotected, Name: v.Name, About: v,
			Why: "it has no finalizer, so that its storage would stay if it were deleted",
			Command: fmt.Sprintf(`kubectl patch pv %s -p '{"metadata": {"finalizers": [%q]}}'`,
				v.Name, contract.VolumeFinalizer),
		})
	}

	return found
}

// ofClasses reports whether a pod of one of the classes may have made the volume.
func (s State) ofClasses(v *corev1.PersistentVolume) bool {
	_, named := podspec.ClaimUIDOf(v.Name)
	return named && slices.Contains(s.Classes, podspec.ClassOf(v))
}

func (s State) pod(pod *corev1.Pod, needed map[string]bool) []Finding {
	outcome := podspec.OutcomeOf(pod)
	if !outcome.Final() || s.Now.Sub(outcome.Finished) <= gracePeriod {
		return nil
	}

	name := pod.Namespace + "/" + pod.Name
	if pod.Labels[contract.LabelOperation] == string(contract.List) {
		return []Finding{{Pod, name, "an audit left it behind", deletion("pod", pod), pod}}
	}

	op, uid, _, ours := podspec.ParseName(pod.Name)
	if !ours || needed[uid] || s.unread(op) || !slices.Contains(pod.Finalizers, contract.PodFinalizer) {
		return nil
	}

	return []Finding{{Pod, name, whyLeft(pod, outcome), release("pod", pod), pod}}
}

// unread reports whether nobody knows who waits for a pod of the operation. VolumeAttachments are not read.
func (s State) unread(op contract.Operation) bool {
	return s.Snapshots == nil && podspec.OfSnapshot(op) || podspec.OfAttachment(op)
}

// deletion is the command that deletes an object, and release the one that takes the dispatcher's finalizer off it
// before.
func deletion(kind string, o metav1.Object) string {
	return fmt.Sprintf("kubectl -n %s delete %s %s", o.GetNamespace(), kind, o.GetName())
}

func release(kind string, o metav1.Object) string {
	const patch = `kubectl -n %s patch %s %s -p '{"metadata": {"$deleteFromPrimitiveList/finalizers": [%q]}}' && %s`
	return fmt.Sprintf(patch, o.GetNamespace(), kind, o.GetName(), contract.PodFinalizer, deletion(kind, o))
}

// whyLeft says why a pod is a finding that ended long ago and that nobody needs.
func whyLeft(pod *corev1.Pod, outcome podspec.Outcome) string {
	op, _, _, _ := podspec.ParseName(pod.Name)
	if outcome.MayHaveMade() && op == contract.Provision {
		return "its claim is gone, and what it may have made has not been removed; its events say why"
	}

	return "it ended more than an hour ago, and nobody waits for it"
}

// saved is pod for the record of a pod that is gone.
func (s State) saved(record *appsv1.ControllerRevision, needed map[string]bool) []Finding {
	name, command := record.Namespace+"/"+record.Name, release("controllerrevision", record)

	pod := podspec.SavedPod(record)
	if pod == nil {
		about := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: record.Namespace, Name: record.Name}}
		why := "its record counts for nothing: it was restored from a backup, or is none"

		return []Finding{{Pod, name, why, command, about}}
	}

	op, uid, _, _ := podspec.ParseName(pod.Name)
	outcome := podspec.OutcomeOf(pod)
	exists := slices.ContainsFunc(s.Pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	if exists || needed[uid] || s.unread(op) || s.Now.Sub(outcome.Finished) <= gracePeriod {
		return nil
	}

	return []Finding{{Pod, name, whyLeft(pod, outcome) + " (the pod is gone, and its record stays)", command, pod}}
}

func (s State) storage(l Listing, known map[string]bool) []Finding {
	var findings []Finding
	for _, name := range slices.Sorted(maps.Keys(l.Storage)) {
		if uid, ok := podspec.ClaimUIDOf(name); !ok || !known[uid] {
			findings = append(findings, Finding{
				Kind: Storage, Name: displayName(name), Command: removalComment(l.Storage[name]),
				Why: fmt.Sprintf("class %s has it, and there is no claim, volume or pod for it", l.Classes[0]),
			})
		}
	}

	if !l.Complete {
		return findings
	}

	for _, v := range s.Volumes {
		if _, found := l.Storage[v.Name]; !found && s.expectedIn(v, l) {
			findings = append(findings, Finding{
				Kind: Empty, Name: v.Name, About: v, Command: s.removeEmpty(v),
				Why: fmt.Sprintf("class %s does not have its storage", v.Spec.StorageClassName),
			})
		}
	}

	return findings
}

// expectedIn reports whether the listing has to have the volume's storage: the volume existed before, and the listing
// is for its class, properties and parameters.
func (s State) expectedIn(v *corev1.PersistentVolume, l Listing) bool {
	ours := v.Annotations[contract.ProvisionedBy] == s.Provisioner
	listed := ours && slices.Contains(l.Classes, v.Spec.StorageClassName)
	leaving := v.DeletionTimestamp != nil || v.Status.Phase == corev1.VolumeReleased
	if !listed || leaving || !v.CreationTimestamp.Time.Before(l.Began) {
		return false
	}

	identity, err := podspec.IdentityOf(v)
	if err != nil {
		return false
	}

	found := maps.Equal(identity.Properties, l.Config.Properties) && maps.Equal(identity.Parameters, l.Parameters)

	return found && l.lookedAt(v) && s.madeThere(v, l.Config)
}

// madeThere reports whether a volume was made in what the pods of a class mount now, as far as its record says.
func (s State) madeThere(v *corev1.PersistentVolume, config *configmaps.Config) bool {
	mounts, err := podspec.MountsOf(v)

	return err == nil && !slices.ContainsFunc(mounts, func(m contract.Mount) bool {
		if m.Claim == "" {
			return !slices.ContainsFunc(config.HostPaths, func(h configmaps.HostPath) bool { return h.Path == m.Path })
		}

		source := s.sourceOf(config.Namespace, m.Claim)
		mount := configmaps.ClaimMount{Claim: m.Claim, Path: m.Path}
		mounted := slices.Contains(slices.Concat(config.MountClaims, config.Devices), mount)

		return !mounted || m.Source != "" && m.Source != source
	})
}

// sourceOf is the source of a claim's volume, empty where the claim is not bound.
func (s State) sourceOf(namespace, name string) string {
	for _, c := range s.Claims {
		if c.Namespace != namespace || c.Name != name {
			continue
		}

		for _, v := range s.Volumes {
			if podspec.Bound(c, v) {
				return podspec.MountSource(v)
			}
		}
	}

	return ""
}

// Unplaced counts the volumes whose storage is removed with them, and whose record does not say where that is: they
// were made before records did so. Their pods use what the class mounts by then.
func (s State) Unplaced() (n int) {
	for _, v := range s.Volumes {
		_, placed := v.Annotations[contract.AnnMounts]
		if !placed && v.Annotations[contract.ProvisionedBy] == s.Provisioner &&
			v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			n++
		}
	}

	return n
}

// removeEmpty is the command that removes a volume without storage. It deletes the claim only if that is bound to this
// volume: the pod that created the volume may have written another claim's name into it.
func (s State) removeEmpty(v *corev1.PersistentVolume) string {
	ref := v.Spec.ClaimRef
	for _, c := range s.Claims {
		if ref != nil && podspec.Names(ref, c) && c.Spec.VolumeName == v.Name {
			return fmt.Sprintf("kubectl -n %s delete pvc %s", c.Namespace, c.Name)
		}
	}

	return "kubectl delete pv " + v.Name
}

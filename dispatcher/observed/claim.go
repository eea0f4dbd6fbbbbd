package observed

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Claim is everything that is known about one claim at one moment. The claim's UID is the key: claim, volume and
// pods may each be missing.
type Claim struct {
	Now time.Time
	// UID is the claim's, and that in the name of the volume, which may belong to another claim by now.
	UID string
	// ClassName is the StorageClass that the objects are of: see ClassByObjects.
	ClassName string
	// Class is the StorageClass, nil where it does not exist.
	Class *storagev1.StorageClass
	// Claim is the claim with this UID, or nil.
	Claim *corev1.PersistentVolumeClaim
	// Volume is pvc-<UID>, or nil. Foreign is that volume where another provisioner made it: then Volume is nil.
	// SetVolume sets both.
	Volume, Foreign *corev1.PersistentVolume
	// Other is the claim that the volume was given to, if it was given to another one than it was made for, or nil.
	// SetOther sets it, and Holder says which claim the volume belongs to.
	Other *corev1.PersistentVolumeClaim
	// Elsewhere reports whether the claim has a volume that was made for another claim, by whose UID it is served.
	Elsewhere bool
	// Source is the claim that this one asks to be a clone of.
	Source CloneSource
	// Places are where the claims that pods mount have their storage, by their names; nil where that is not known.
	// SetPlaces sets them.
	Places map[string]Place
	// Snapshot is the snapshot that is served under this UID, nil for a claim. With it there is no Claim, and Volume is
	// the one that the snapshot is of. SetSnapshot sets it.
	Snapshot *Snapshot
	// Attachment is the VolumeAttachment that is served under this UID, nil for a claim. With it there is no Claim, and
	// Volume is the one that it names. SetAttachment sets it.
	Attachment *Attachment
	// AttachedTo are the nodes that Kubernetes has attached the released volume to, or is about to.
	AttachedTo []string
	// Attempts are the pods of all operations whose outcome has not been acted on, oldest first.
	Attempts []Attempt
	// Retained are the pods whose outcome has been acted on. They stay for their logs, or to keep their names taken.
	Retained []Attempt

	// Provisioner is the name that this dispatcher serves.
	Provisioner string
	// RecordKey signs the record of a volume.
	RecordKey podspec.RecordKey
	// Config is the configuration in force for the class, or nil. ConfigProblem then says, for users, why there is
	// none.
	Config        *configmaps.Config
	ConfigProblem string
	// PoliciesMissing names the admission policy without which no provisioner pod is safe, empty where all are in
	// force.
	PoliciesMissing string
	// CreatorKnown reports whether the claim's created-by annotations can be believed.
	CreatorKnown bool

	// Wanted reports whether the library handed the claim over to be provisioned.
	Wanted bool
	// WantedSince is when it did so first, zero where it did not.
	WantedSince time.Time
	// Rescheduled is the pod after whose failure the scheduler was asked for another node, or empty. It may have chosen
	// the same.
	Rescheduled types.UID
	// Repaired is when this dispatcher repaired the volume last, or zero.
	Repaired time.Time
	// PodMissed reports whether a pod came and went which the cache does not show.
	PodMissed bool
	// Confirmed is when the API server was last asked for all that a new pod relies on; zero where it was not.
	Confirmed time.Time
	// Revision counts what the library had handed over before anything else of the state was read.
	Revision uint64
	// Quiet reports whether a success is worth a log line and no event: other claims of the class are active, and this
	// one had no warning. Each event is a write, and whoever waits for a thousand claims sees that they are bound.
	Quiet bool

	// DeletionsStopped says, for users, that an administrator stopped all deletions, empty where nobody did.
	DeletionsStopped string
	// CopiedBy names, for users, the pod that copies the volume into a clone, empty where none does.
	CopiedBy string
	// User is a claim that is, or was, bound to the released volume and that the volume does not name, or nil. It is
	// not Claim.
	User *corev1.PersistentVolumeClaim
	// SameStorage is a volume that no provisioner pod made and that has the released volume's storage too, or nil.
	// SetSameStorage sets it.
	SameStorage *corev1.PersistentVolume
	// Successor is the claim that has the name in the released volume's claimRef, and another UID, and asks for the
	// volume; or nil. SetSuccessor sets it.
	Successor *corev1.PersistentVolumeClaim
	// Host is the node that a node-local attempt has to run on. It is read from the API server alone.
	Host Host
	// Node says whether the node of the released volume exists. It is read from the API server alone, and unknown
	// before.
	Node NodeState
	// AttemptNode is the node of the attempt that has not ended, or that RefusedBy names; nil where it was not read. It
	// is read from the API server alone: by the dispatcher where a node refuses the pod, and by kubectl flex why.
	AttemptNode *corev1.Node
	// RecentDeletions counts the old volumes of the class that are being deleted or were deleted lately, up to one
	// above DeleteLimit. A limit of 0 means none.
	RecentDeletions, DeleteLimit int
}

// ClaimLives reports whether somebody still waits for the claim.
func (s *Claim) ClaimLives() bool { return s.Claim != nil && s.Claim.DeletionTimestamp == nil }

// SetVolume takes in the volume of the claim's name, or nil. A volume without the annotation provisioned-by counts as
// this dispatcher's: its pod left the annotation out.
func (s *Claim) SetVolume(v *corev1.PersistentVolume) {
	s.Volume, s.Foreign = v, nil
	if v == nil {
		return
	}

	if !madeHere(v, s.Provisioner) {
		s.Volume, s.Foreign = nil, v
	}
}

// SetSuccessor finds the claim that took the name in the released volume's claimRef and asks for the volume. A claim
// that asks for less than the volume has is not believed: a tenant could keep storage for ever that no quota counts.
func (s *Claim) SetSuccessor(claim func(namespace, name string) *corev1.PersistentVolumeClaim) {
	s.Successor = nil
	if !s.Released() {
		return
	}

	ref := s.Volume.Spec.ClaimRef
	other := claim(ref.Namespace, ref.Name)
	asks := other != nil && other.UID != ref.UID && other.Spec.VolumeName == s.Volume.Name
	if asks && paysFor(other, s.Volume) {
		s.Successor = other
	}
}

// paysFor reports whether the claim asks for all that the volume has, so that its namespace's quota counts it.
func paysFor(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) bool {
	asked, has := Requested(claim), Capacity(v)
	return asked.Cmp(has) >= 0
}

// GivenVolume is the volume that a claim is, or was, bound to, if it was made for another claim; else it is empty. Few
// claims have such a volume.
func GivenVolume(claim *corev1.PersistentVolumeClaim) string {
	name := claim.Spec.VolumeName
	if claim.Status.Phase == corev1.ClaimPending || name == podspec.VolumeName(string(claim.UID)) {
		return ""
	}

	return name
}

// SetUser finds a claim that uses the released volume although the volume does not name it, among those whose
// GivenVolume it is. Kubernetes alone makes a claim Bound. A claim that is Lost may never have been bound: its author
// can write all that makes it so, and is believed where the claim pays for the volume's size.
func (s *Claim) SetUser(claims []*corev1.PersistentVolumeClaim) {
	s.User = nil
	for _, claim := range claims {
		named := s.Volume.Spec.ClaimRef != nil && s.Volume.Spec.ClaimRef.UID == claim.UID
		believed := claim.Status.Phase == corev1.ClaimBound || paysFor(claim, s.Volume)
		if !named && believed {
			s.User = claim
			return
		}
	}
}

// StorageByHand is the storage of a volume that no provisioner pod made, as podspec.MountSource has it. It is empty for
// a volume that is named as those of provisioner pods.
func StorageByHand(v *corev1.PersistentVolume) string {
	if _, named := podspec.ClaimUIDOf(v.Name); named {
		return ""
	}

	return podspec.MountSource(v)
}

// SetSameStorage finds a volume among those whose StorageByHand is the released volume's storage. An administrator made
// it for what somebody is to keep.
func (s *Claim) SetSameStorage(volumes []*corev1.PersistentVolume) {
	s.SameStorage = nil
	if len(volumes) > 0 {
		s.SameStorage = volumes[0]
	}
}

// SetCopiedBy finds a pod that copies the released volume, among those whose CopiedVolume it is.
func (s *Claim) SetCopiedBy(pods []*corev1.Pod) {
	s.CopiedBy = ""
	if len(pods) > 0 {
		s.CopiedBy = fmt.Sprintf("pod %s/%s for claim %s",
			pods[0].Namespace, pods[0].Name, pods[0].Annotations[contract.AnnClaim])
	}
}

// ClaimRef is the claim, or where the cache shows none its name and UID as the newest pod has them; nil where none has.
func (s *Claim) ClaimRef() *corev1.PersistentVolumeClaim {
	if s.Claim != nil {
		return s.Claim
	}

	newest, ok := Last(s.Attempts)
	if !ok {
		return nil
	}

	request, err := podspec.RequestOf(newest.Pod)
	if err != nil || request.Claim.UID != s.UID {
		return nil
	}

	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: request.Claim.Namespace,
		Name: request.Claim.Name, UID: types.UID(s.UID)}}
}

// KnownClass is the class's name, empty where the claim alone says that there is one: its author may write anything.
// Volumes and pods name none but those that an administrator made.
func (s *Claim) KnownClass() string {
	if s.Class == nil && s.Volume == nil && len(s.Attempts)+len(s.Retained) == 0 {
		return ""
	}

	return s.ClassName
}

// Pending reports whether the claim lives and has no volume, so that this dispatcher has to provision one. A class that
// was deleted and made again may have another provisioner since.
func (s *Claim) Pending() bool {
	unbound := s.ClaimLives() && s.Claim.Spec.VolumeName == ""
	taken := s.Foreign != nil || s.HandedOver()
	ours := s.Class == nil || s.Class.Provisioner == s.Provisioner

	return unbound && !taken && ours
}

// UserWaits reports whether somebody waits for the next step: for a volume, or for its end.
func (s *Claim) UserWaits() bool {
	switch {
	case s.Snapshot != nil:
		return s.Snapshot.Content != nil && DueContent(s.Snapshot.Content, s.Snapshot.Driver)
	case s.Attachment != nil:
		return s.Attachment.Object != nil && DueAttachment(s.Attachment.Object)
	}

	return s.Pending() || s.Volume != nil && AwaitsDeletion(s.Volume)
}

// Expandable reports whether this dispatcher decides about the volume's size: it and its holder are bound to each
// other, and a provisioner pod of this dispatcher made the volume.
func (s *Claim) Expandable() bool {
	return s.bound() && s.Volume.Annotations[contract.ProvisionedBy] == s.Provisioner
}

// Released reports whether Kubernetes asks this dispatcher to remove the volume's storage. obstacles.Removal says
// whether it may.
func (s *Claim) Released() bool {
	return s.Volume != nil && s.Volume.Annotations[contract.ProvisionedBy] == s.Provisioner && AwaitsDeletion(s.Volume)
}

// AwaitsDeletion reports whether Kubernetes has released the volume, so that its provisioner is to remove its storage.
// The phase is Failed where kube-controller-manager did not find the annotation provisioned-by at that moment. It never
// changes that phase again, unless somebody frees the volume. Then it makes the volume Available within a moment.
//
// The storage of a volume that is being deleted without the finalizer has been removed, or somebody took the finalizer
// off.
func AwaitsDeletion(v *corev1.PersistentVolume) bool {
	released := v.Status.Phase == corev1.VolumeReleased || v.Status.Phase == corev1.VolumeFailed
	freed := v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == ""
	gone := v.DeletionTimestamp != nil && !slices.Contains(v.Finalizers, contract.VolumeFinalizer)
	if freed || gone {
		return false
	}

	return released && deletes(v)
}

// deletes reports whether the reclaim policy of the volume is Delete.
func deletes(v *corev1.PersistentVolume) bool {
	return v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// DeletedByHand reports whether somebody deleted a volume that was freed, so that its object waits for the removal of
// its storage. Kubernetes releases no volume that names no claim.
func DeletedByHand(v *corev1.PersistentVolume) bool {
	kept := v.DeletionTimestamp != nil && slices.Contains(v.Finalizers, contract.VolumeFinalizer)

	return kept && v.Status.Phase == corev1.VolumeAvailable && deletes(v)
}

// FinalizerMisplaced reports whether a volume of the provisioner lacks the finalizer that keeps its object until its
// storage is removed, or has it although its storage is to be retained. A retained volume that has lost its annotations
// counts once somebody deletes it: nobody else would take the finalizer off.
func FinalizerMisplaced(v *corev1.PersistentVolume, provisioner string) bool {
	has := slices.Contains(v.Finalizers, contract.VolumeFinalizer)
	by, named := v.Annotations[contract.ProvisionedBy]
	retained := !deletes(v)
	switch {
	case !named:
		return retained && has && v.DeletionTimestamp != nil
	case by != provisioner:
		return false
	case retained:
		return has
	}

	return !has && v.DeletionTimestamp == nil
}

// Due reports whether the volume itself asks for work of the provisioner that it names, whoever its claim is.
func Due(v *corev1.PersistentVolume, provisioner string) bool {
	made := v.Annotations[contract.ProvisionedBy] == provisioner
	unneeded := AwaitsDeletion(v) || DeletedByHand(v)

	return made && unneeded || FinalizerMisplaced(v, provisioner)
}

// SelectedNode is the scheduler's choice for a claim of a class with volumeBindingMode WaitForFirstConsumer, else
// empty. The claim's author can write the annotation too. Elsewhere it means nothing, and here the pod still passes the
// scheduler with the class's node selector, so that it cannot reach a node where the class has nothing to do.
func (s *Claim) SelectedNode() string {
	if s.Claim == nil || !s.WaitsForConsumer() {
		return ""
	}

	return s.Claim.Annotations[AnnSelectedNode]
}

// NodeToMakeOn is the node on which the claim's storage is to be made if it is node-local. It is the selected one, but
// for a snapshot that is on nodes already.
func (s *Claim) NodeToMakeOn() string {
	if s.Pinned() {
		return ""
	}

	return s.SelectedNode()
}

// WaitsForConsumer reports whether claims of the class wait for a pod that uses them.
func (s *Claim) WaitsForConsumer() bool {
	return waitsForConsumer(s.Class)
}

func waitsForConsumer(class *storagev1.StorageClass) bool {
	if class == nil || class.VolumeBindingMode == nil {
		return false
	}

	return *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// WaitsForNode reports whether Kubernetes hands the claim over only once a pod that uses it has a node.
func (s *Claim) WaitsForNode() bool {
	return s.WaitsForConsumer() && strings.TrimSpace(s.SelectedNode()) == ""
}

// AnnSelectedNode is where the scheduler writes its choice.
const AnnSelectedNode = "volume.kubernetes.io/selected-node"

// ReclaimPolicy is the class's, nil where the class does not exist.
func (s *Claim) ReclaimPolicy() *corev1.PersistentVolumeReclaimPolicy {
	if s.Class == nil {
		return nil
	}

	return s.Class.ReclaimPolicy
}

// Requested is the size that a claim asks for.
func Requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// Capacity is the size that a volume states.
func Capacity(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

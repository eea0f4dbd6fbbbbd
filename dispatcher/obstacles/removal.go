package obstacles

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Proof is why storage is the dispatcher's to remove. docs/removal.md lists the proofs for administrators, by these
// names.
type Proof string

// The proofs. There are no others: without one, storage stays.
const (
	NoProof Proof = ""
	// ClaimDeleted: the volume is released under the reclaim policy Delete, and the claim that its claimRef names by
	// UID does not exist.
	ClaimDeleted Proof = "ClaimDeleted"
	// NeverUsed: the volume cannot serve the claim that its pod made it for, that claim has never been bound, and the
	// volume has been Pending since its creation. So nobody can have used it.
	NeverUsed Proof = "NeverUsed"
	// NoVolume: attempts may have made storage, and none of them came to a volume. A volume with pods of attempts keeps
	// its finalizer, so that it cannot disappear beside them.
	NoVolume Proof = "NoVolume"
	// RemovalBegun: a delete pod was created by one of the proofs above, and what is half removed serves nobody.
	RemovalBegun Proof = "RemovalBegun"
	// Allowed: an administrator allows it by the annotation allow-delete.
	Allowed Proof = "Allowed"
)

// oldVolume is the age from which volumes count for the limit on deletions. Tests and builds make and remove younger
// ones in any number, and nobody has kept anything in them for long.
const oldVolume = 24 * time.Hour

// Old reports whether a volume counts for the limit.
func Old(v *corev1.PersistentVolume, now time.Time) bool {
	return now.Sub(v.CreationTimestamp.Time) > oldVolume
}

// RemovalAsked reports whether the volume's storage is to be removed, as far as the objects say. Removal says whether
// that is proved. A volume that neither its claim's end nor a fault puts up for removal belongs to whoever keeps it,
// whatever pods are left.
func RemovalAsked(s *observed.Claim, faults []string) bool {
	ofAttempt := s.ClaimLives() && len(s.Of(contract.Provision)) > 0
	unfit := len(faults) > 0 && ofAttempt && neverUsed(s)
	begun := removalBegun(s) || observed.DeletedByHand(s.Volume)

	return s.Released() || unfit || begun
}

// Kept reports whether an administrator keeps what attempts without a volume may have made: by the annotation
// allow-delete with the value false on one of their pods.
func Kept(s *observed.Claim) bool { return s.Volume == nil && answered(s, "false") }

func answered(s *observed.Claim, answer string) bool {
	return slices.ContainsFunc(s.Attempts, func(a observed.Attempt) bool {
		return a.Pod.Annotations[contract.AnnAllowDelete] == answer
	})
}

// Removal is the one place that decides whether storage may be removed: that of the volume, or without one, what
// attempts may have made. Every delete pod is created by its proof. Without a proof it says why the storage stays. What
// is removed is gone for ever, while what waits costs a little space. So in doubt an administrator is asked.
//
// It relies on nothing but the observed objects, which were read from the API server when a pod is created.
func Removal(s *observed.Claim) (proof Proof, reason podspec.Reason, why string) {
	switch {
	case s.DeletionsStopped != "":
		return NoProof, events.ReasonStopped, s.DeletionsStopped
	case s.Foreign != nil:
		return foreignRemoval(s)
	case s.Volume == nil:
		return undoRemoval(s)
	case s.Released():
		return releasedRemoval(s)
	case removalBegun(s):
		return RemovalBegun, podspec.ReasonNone, ""
	case neverUsed(s):
		return NeverUsed, podspec.ReasonNone, ""
	case observed.DeletedByHand(s.Volume) && s.Volume.Annotations[contract.AnnAllowDelete] == "true":
		return Allowed, podspec.ReasonNone, ""
	case observed.DeletedByHand(s.Volume):
		return held("somebody deleted the volume, and no claim of it was deleted before", volume(s))
	}

	return held("the volume may have been used, and no claim of it was deleted", volume(s))
}

// neverUsed reports whether nobody can have used the volume. Its phase is Pending from its creation until a claim is
// bound to it, or somebody frees it, and never again after that. Policies let a pod create a volume with its own
// claim's UID alone, so another UID is an administrator's. The claim's volumeName, once set, stays.
//
// A volume with the claim's UID and another name is one that a pod made so. No claim can be bound to it, and Kubernetes
// releases it.
func neverUsed(s *observed.Claim) bool {
	ref, phase := s.Volume.Spec.ClaimRef, s.Volume.Status.Phase
	asMade := ref != nil && string(ref.UID) == s.UID
	unbound := s.Claim != nil && s.Claim.Spec.VolumeName == ""
	if !asMade || !unbound {
		return false
	}

	return phase == corev1.VolumePending || phase == corev1.VolumeReleased && !podspec.Names(ref, s.Claim)
}

// removalBegun reports whether a delete pod was created for an unfit volume. The volume was being deleted by then, so
// that nobody was bound to it since.
func removalBegun(s *observed.Claim) bool {
	retracted := s.Volume.DeletionTimestamp != nil && s.Volume.Status.Phase != corev1.VolumeBound

	return retracted && slices.ContainsFunc(s.Of(contract.Delete), func(a observed.Attempt) bool {
		return a.Pod.Annotations[contract.AnnUndo] != "" && a.ForVolume(s.Volume)
	})
}

// releasedRemoval is for a volume that Kubernetes has released under the reclaim policy Delete.
func releasedRemoval(s *observed.Claim) (Proof, podspec.Reason, string) {
	if s.CopiedBy != "" {
		return NoProof, events.ReasonCopied, s.CopiedBy + " copies the volume; its storage is removed after that"
	}

	if why := attachedTo(s); why != "" {
		return NoProof, events.ReasonStillAttached, why
	}

	if s.Volume.Annotations[contract.AnnAllowDelete] == "true" {
		return Allowed, podspec.ReasonNone, ""
	}

	if why := doubt(s); why != "" {
		return held(why, volume(s))
	}

	limit := s.DeleteLimit
	limited := limit > 0 && Old(s.Volume, s.Now)
	if limited && s.RecentDeletions > limit {
		return NoProof, events.ReasonLimit, fmt.Sprintf("more than %d volumes of class %s that are older than a day "+
			"would be removed within an hour; if that is meant, raise the ConfigMap's delete-limit, or kubectl "+
			"annotate pv NAME... %s=true", limit, s.ClassName, contract.AnnAllowDelete)
	}

	return ClaimDeleted, podspec.ReasonNone, ""
}

// doubt says why a released volume looks as if somebody still needed its storage, empty where nothing does. It names a
// claim: else it would not be Released.
func doubt(s *observed.Claim) string {
	ref := s.Volume.Spec.ClaimRef
	given := string(ref.UID) != s.UID
	named := s.Claim
	if given {
		named = s.Other
	}

	switch {
	case named != nil && podspec.Names(ref, named):
		return fmt.Sprintf("claim %s/%s, which the volume names, exists and is bound to %s",
			ref.Namespace, ref.Name, quoted(named.Spec.VolumeName))
	case s.Claim != nil && s.Claim.Spec.VolumeName == s.Volume.Name:
		return fmt.Sprintf("claim %s/%s, for which the volume was made, exists and names it",
			s.Claim.Namespace, s.Claim.Name)
	case s.User != nil:
		return fmt.Sprintf("claim %s/%s is bound to the volume, which names another claim",
			s.User.Namespace, s.User.Name)
	case s.SameStorage != nil:
		return fmt.Sprintf("volume %s, which no provisioner pod made, has the same storage", s.SameStorage.Name)
	}

	why := doubtByRecord(s, given)
	if why == "" && s.Successor != nil {
		return fmt.Sprintf("claim %s/%s asks for the volume, but is not the one that the volume names: to give it the "+
			"volume, remove the volume's spec.claimRef.uid", s.Successor.Namespace, s.Successor.Name)
	}

	return why
}

// doubtByRecord says what the volume's record leaves open. given reports whether the volume was given to another claim.
func doubtByRecord(s *observed.Claim, given bool) string {
	ref := s.Volume.Spec.ClaimRef
	byDesign := s.Config != nil && s.Config.VolumesHandedOver

	switch {
	case podspec.Restored(s.Volume) && !byDesign:
		return "the volume was restored from a backup after its pod had made it, and its storage may serve others"
	case podspec.OriginUnknown(s.Volume) && !byDesign:
		return fmt.Sprintf("the volume has no valid record and no annotation %s, so that nobody knows whether it was "+
			"restored from a backup", contract.AnnMadeBefore)
	case given && !podspec.Recorded(s.Volume):
		return fmt.Sprintf("the volume was given to another claim, %s/%s with UID %s, than the one that it was made "+
			"for, and its record is not signed by this dispatcher", ref.Namespace, ref.Name, ref.UID)
	}

	return ""
}

// foreignRemoval is for what attempts may have made, where another provisioner has a volume of the same name.
func foreignRemoval(s *observed.Claim) (Proof, podspec.Reason, string) {
	if s.Foreign.Annotations[contract.AnnAllowDelete] == "true" {
		return Allowed, podspec.ReasonNone, ""
	}

	return held(fmt.Sprintf("volume %s was made by provisioner %.64q, which may have taken over what an earlier "+
		"attempt of this dispatcher made",
		s.Foreign.Name, s.Foreign.Annotations[contract.ProvisionedBy]), "pv "+s.Foreign.Name)
}

// undoRemoval is for what attempts may have made, where no volume exists.
//
// An administrator who keeps retained storage deletes the volume's object, and perhaps makes another one for the
// storage. So it counts as proof that no attempt can have come to a volume: the claim has never been bound to one of
// the attempts, or it is gone, none of them says that it made the volume, and no volume was seen beside one.
func undoRemoval(s *observed.Claim) (Proof, podspec.Reason, string) {
	name := podspec.VolumeName(s.UID)
	last, _ := observed.Last(s.Attempts)
	newest, deleting := observed.Last(s.Of(contract.Delete))
	made := slices.IndexFunc(s.Of(contract.Provision), func(a observed.Attempt) bool {
		return a.Outcome.Phase == podspec.Succeeded || a.Pod.Annotations[contract.AnnVolumeSeen] != ""
	})

	switch {
	case answered(s, "true"):
		return Allowed, podspec.ReasonNone, ""
	case deleting && newest.Pod.Annotations[contract.AnnUndo] != "":
		return RemovalBegun, podspec.ReasonNone, ""
	case deleting && newest.Pod.Annotations[contract.AnnVolumeUID] != "":
		return heldWithoutVolume(newest, "volume %s was deleted before its storage was removed: somebody took its "+
			"finalizer off, and another volume may have the storage", name)
	case s.Claim != nil && s.Claim.Spec.VolumeName == name:
		return heldWithoutVolume(last, "claim %s/%s was bound to volume %s, which somebody deleted: another volume "+
			"may have its storage", s.Claim.Namespace, s.Claim.Name, name)
	case s.Claim == nil && made >= 0:
		a := s.Of(contract.Provision)[made]

		return heldWithoutVolume(a, "pod %s came to volume %s, which does not exist: somebody may have "+
			"deleted the volume and kept its storage", a.Pod.Name, name)
	}

	return NoVolume, podspec.ReasonNone, ""
}

// held says why storage stays, and how an administrator lets it go: by an annotation of the object.
func held(why, object string) (Proof, podspec.Reason, string) {
	allow := fmt.Sprintf("; if it is to be removed: kubectl annotate %s %s=true", object, contract.AnnAllowDelete)
	return NoProof, events.ReasonHeld, why + allow
}

// heldWithoutVolume is held where only a pod can have the answer, or its record where it is gone. With the other answer
// the pods go, and the storage stays.
func heldWithoutVolume(a observed.Attempt, format string, args ...any) (Proof, podspec.Reason, string) {
	record := fmt.Sprintf("%s -n %s %s", a.Kind(), a.Pod.Namespace, a.Pod.Name)
	proof, reason, message := held(fmt.Sprintf(format, args...), record)

	return proof, reason, message + "; if it is to be kept: the same with =false"
}

func volume(s *observed.Claim) string { return "pv " + s.Volume.Name }

func quoted(volumeName string) string {
	if volumeName == "" {
		return "no volume"
	}

	return "volume " + volumeName
}

package obstacles

import (
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ToSnapshot is what keeps a VolumeSnapshot from getting a content. Only a bound claim whose volume this dispatcher's
// pods made, and finds again, has a snapshot.
func ToSnapshot(s *observed.Claim) (podspec.Reason, string) {
	of := s.Snapshot
	claim, v := of.Claim, of.Source
	name := *of.Request.Spec.Source.PersistentVolumeClaimName

	switch {
	case len(of.Class.Parameters) > 0:
		return events.ReasonSnapshotRefused, fmt.Sprintf("VolumeSnapshotClass %s has parameters, and provisioner pods "+
			"know none: create it again without them", of.Class.Name)
	case claim == nil:
		return events.ReasonSnapshotWaits, fmt.Sprintf("claim %s does not exist; the snapshot waits for it", name)
	case v == nil || !podspec.Bound(claim, v):
		return events.ReasonSnapshotWaits, fmt.Sprintf("claim %s is not bound; the snapshot waits for it", name)
	case claim.DeletionTimestamp != nil || v.DeletionTimestamp != nil:
		return events.ReasonSnapshotRefused, fmt.Sprintf("claim %s, or its volume %s, is being deleted: delete the "+
			"VolumeSnapshot", name, v.Name)
	}

	if by := v.Annotations[contract.ProvisionedBy]; by != s.Provisioner {
		return events.ReasonSnapshotRefused, fmt.Sprintf("volume %s of claim %s is of provisioner %.64q, and "+
			"VolumeSnapshotClass %s is for those of %s", v.Name, name, by, of.Class.Name, s.Provisioner)
	}

	if _, made := podspec.ClaimUIDOf(v.Name); !made {
		return events.ReasonSnapshotRefused, fmt.Sprintf("no provisioner pod made volume %s of claim %s under this "+
			"name, and only volumes that pods made have snapshots: delete the VolumeSnapshot", v.Name, name)
	}

	return toSnapshotPod(s, contract.Snapshot)
}

// ToTakeSnapshot is what keeps a content from getting a pod that takes its snapshot. Once the VolumeSnapshot is gone,
// nobody asks for it any more. A snapshot that is taken beside the removal of its volume would have a part of the data,
// and nobody would know.
func ToTakeSnapshot(s *observed.Claim) (podspec.Reason, string) {
	v := s.Snapshot.Source
	switch {
	case s.Snapshot.Request == nil:
		return events.ReasonSnapshotRefused, unasked(s.Snapshot)
	case v == nil || v.Name != s.Volume.Name:
		return events.ReasonSnapshotRefused, fmt.Sprintf("volume %s does not exist any more, and no snapshot of it "+
			"was taken: delete the VolumeSnapshot", s.Volume.Name)
	case v.DeletionTimestamp != nil || v.Status.Phase != corev1.VolumeBound:
		return events.ReasonSnapshotRefused, fmt.Sprintf("volume %s is not bound any more, so that its storage may be "+
			"removed at any time: delete the VolumeSnapshot", v.Name)
	case !sameClaim(v, s.Volume):
		return events.ReasonSnapshotRefused, fmt.Sprintf("volume %s is bound to another claim than when the snapshot "+
			"was asked for: delete the VolumeSnapshot", v.Name)
	}

	return toSnapshotPod(s, contract.Snapshot)
}

// unasked says what is left to do about a content whose VolumeSnapshot was deleted too early. Under the policy Retain,
// what an attempt may have made would stay, and so does a snapshot that may have been whole.
func unasked(of *observed.Snapshot) string {
	name, ref := of.Content.Name, of.Content.Spec.VolumeSnapshotRef
	command := "kubectl delete volumesnapshotcontent " + name
	if of.Retained() && podspec.ContentUnmade(of.Content) {
		command = fmt.Sprintf("kubectl patch volumesnapshotcontent %s --type=merge "+
			"-p '{\"spec\":{\"deletionPolicy\":\"Delete\"}}' && %s", name, command)
	}

	return fmt.Sprintf("VolumeSnapshot %s/%s does not exist any more, so that its snapshot is not taken: %s",
		ref.Namespace, ref.Name, command)
}

// sameClaim reports whether a volume is still its claim's. An administrator may have given it to another tenant, whose
// data is not for the namespace of the VolumeSnapshot.
func sameClaim(now, recorded *corev1.PersistentVolume) bool {
	is, was := now.Spec.ClaimRef, recorded.Spec.ClaimRef

	return is != nil && was != nil && is.UID == was.UID
}

// ToRemoveSnapshot is what keeps a content from getting a pod that removes its snapshot. SnapshotRemoval comes before
// it.
func ToRemoveSnapshot(s *observed.Claim) (podspec.Reason, string) {
	return toSnapshotPod(s, contract.DeleteSnapshot)
}

func toSnapshotPod(s *observed.Claim, op contract.Operation) (podspec.Reason, string) {
	if reason, why := ToPod(s); reason != podspec.ReasonNone {
		return reason, why
	}

	if !s.Config.Snapshots {
		return events.ReasonSnapshotRefused, fmt.Sprintf("class %s has no snapshots: its ConfigMap %s has neither the "+
			"scripts \"snapshot\" and \"delete-snapshot\" nor snapshots: \"true\"", s.ClassName, s.Config.Name)
	}

	if s.Volume != nil {
		if _, doubt := s.VolumeIdentity(); doubt != "" {
			return events.ReasonRecord, doubt
		}
	}

	return ToStorage(s, op, nil)
}

// InvalidContent says why a content is served by nobody, empty where it is.
func InvalidContent(s *observed.Claim) string {
	content := s.Snapshot.Content
	fault := observed.HandleFault(content)
	uid, named := podspec.SnapshotUIDOf(content.Name)
	ours := named && uid == s.UID
	switch {
	case s.Snapshot.ByHand():
		return fault
	case !ours:
		return fmt.Sprintf("VolumeSnapshotContent %s asks for a snapshot, and the dispatcher makes such objects "+
			"itself, for VolumeSnapshots: delete it, and create a VolumeSnapshot", content.Name)
	case s.Volume == nil, s.Snapshot.Unrecorded():
		return recordless(content.Name)
	}

	return ""
}

func recordless(content string) string {
	return fmt.Sprintf("VolumeSnapshotContent %s has no valid record of its volume, signed by this dispatcher; if "+
		"annotation %s is right: kubectl annotate volumesnapshotcontent %[1]s --overwrite %[3]s=%[4]s",
		content, contract.AnnVolume, contract.AnnRecord, contract.RecordTrusted)
}

// SnapshotRemoval decides whether a snapshot may be removed whose content is being deleted under the policy Delete. As
// for volumes, in doubt it stays, and an administrator is asked.
func SnapshotRemoval(s *observed.Claim) (proof Proof, reason podspec.Reason, why string) {
	of, content := s.Snapshot, s.Snapshot.Content
	object, ref := "volumesnapshotcontent "+content.Name, content.Spec.VolumeSnapshotRef
	switch {
	case s.DeletionsStopped != "":
		return NoProof, events.ReasonStopped, s.DeletionsStopped
	case !of.Released() && of.Request != nil:
		return NoProof, events.ReasonHeld, fmt.Sprintf("VolumeSnapshot %s/%s has the snapshot: delete that; if it is "+
			"being deleted, the snapshot-controller has to say so, see that it runs", ref.Namespace, ref.Name)
	case of.RestoredBy != "":
		return NoProof, events.ReasonCopied, of.RestoredBy + " restores the snapshot; it is removed after that"
	}

	if fault := observed.HandleFault(content); fault != "" {
		return NoProof, events.ReasonRecord, fault
	}

	if s.Volume == nil {
		if why := doubtWithoutRecord(s); why != "" {
			return NoProof, events.ReasonRecord, why
		}
	}

	switch {
	case of.AfterTwin():
		return NoProof, events.ReasonHeld, fmt.Sprintf("VolumeSnapshotContent %s has the same snapshot %s, and is "+
			"being deleted: it goes first", of.Twin.Name, podspec.HandleOf(content))
	case content.Annotations[contract.AnnAllowDelete] == "true":
		return Allowed, podspec.ReasonNone, ""
	case of.Twin != nil:
		return held(fmt.Sprintf("VolumeSnapshotContent %s has the same snapshot %s", of.Twin.Name,
			podspec.HandleOf(content)), object)
	case !of.Released():
		return held(fmt.Sprintf("VolumeSnapshot %s/%s, which has the snapshot, does not exist, and the "+
			"snapshot-controller has not seen it deleted", ref.Namespace, ref.Name), object)
	}

	limited := s.DeleteLimit > 0 && OldContent(content, s.Now)
	if limited && s.RecentDeletions > s.DeleteLimit {
		return NoProof, events.ReasonLimit, fmt.Sprintf("more than %d volumes or snapshots of class %s that are older "+
			"than a day would be removed within an hour; if that is meant, raise the ConfigMap's delete-limit, or "+
			"kubectl annotate volumesnapshotcontent NAME... %s=true",
			s.DeleteLimit, s.ClassName, contract.AnnAllowDelete)
	}

	return ClaimDeleted, podspec.ReasonNone, ""
}

// OldContent reports whether a content counts for the limit, by the age of volumes.
func OldContent(content *snapshotv1.VolumeSnapshotContent, now time.Time) bool {
	return now.Sub(content.CreationTimestamp.Time) > oldVolume
}

// doubtWithoutRecord says why nobody knows where the snapshot of a content without a record is, empty where its
// administrator says so.
func doubtWithoutRecord(s *observed.Claim) string {
	content := s.Snapshot.Content
	switch {
	case !s.Snapshot.ByHand():
		return recordless(content.Name)
	case s.ClassName == "":
		return noClass(content.Name)
	case s.Config != nil && s.Config.NodeLocal:
		return fmt.Sprintf("class %s has its storage on single nodes, and nothing says which node has the snapshot "+
			"%s: remove it by hand, then: kubectl patch volumesnapshotcontent %s --type=merge "+
			"-p '{\"spec\":{\"deletionPolicy\":\"Retain\"}}'", s.ClassName, podspec.HandleOf(content), content.Name)
	}

	return ""
}

func noClass(content string) string {
	return fmt.Sprintf("nothing says of which class the snapshot of VolumeSnapshotContent %s is: kubectl annotate "+
		"volumesnapshotcontent %[1]s %s=NAME of the StorageClass", content, contract.AnnClass)
}

// refusedRestore says why a claim can never be restored from the snapshot that it asks for, empty where it can, or asks
// for none.
func refusedRestore(s *observed.Claim) string {
	name, fault := observed.SnapshotOf(s.Claim)
	switch {
	case name == "" || fault != "":
		return fault
	case !s.Config.Snapshots:
		return fmt.Sprintf("the claim asks to be restored from VolumeSnapshot %s: class %s has no snapshots", name,
			s.ClassName)
	case !s.Source.SnapshotReady():
		return ""
	}

	content := s.Source.Content
	if content.Spec.Driver != contract.SnapshotDriver(s.Provisioner) {
		return fmt.Sprintf("the claim asks to be restored from VolumeSnapshot %s, which is of driver %.64q: class %s "+
			"restores those of %s", name, content.Spec.Driver, s.ClassName, contract.SnapshotDriver(s.Provisioner))
	}

	if fault := observed.HandleFault(content); fault != "" {
		return fault
	}

	known := s.Source.Config != ""
	if known && s.Source.Config != s.Config.Name {
		return fmt.Sprintf("the claim asks to be restored from VolumeSnapshot %s, which ConfigMap %s has made: class "+
			"%s has ConfigMap %s; use a class of that one", name, s.Source.Config, s.ClassName, s.Config.Name)
	}

	return refusedShape(s, name)
}

// refusedShape is refusedRestore for the size and the mode, by the rules of CSI's provisioner.
func refusedShape(s *observed.Claim, name string) string {
	content := s.Source.Content
	size := observed.Requested(s.Claim)
	if least := content.Status.RestoreSize; least != nil && size.CmpInt64(*least) < 0 {
		return fmt.Sprintf("spec.resources.requests.storage is %s: VolumeSnapshot %s needs %d bytes",
			size.String(), name, *least)
	}

	was := content.Spec.SourceVolumeMode
	if was == nil || content.Annotations[contract.AnnModeChange] == "true" {
		return ""
	}

	if mode := podspec.ModeOf(s.Claim.Spec.VolumeMode); mode != podspec.ModeOf(was) {
		return fmt.Sprintf("spec.volumeMode is %s: VolumeSnapshot %s is of a volume of mode %s; an administrator can "+
			"allow that: kubectl annotate volumesnapshotcontent %s %s=true", mode, name, *was, content.Name,
			contract.AnnModeChange)
	}

	return ""
}

// missingSnapshot says what a claim waits for that asks for a snapshot, empty where that is ready, or it asks for none.
func missingSnapshot(s *observed.Claim) string {
	name, _ := observed.SnapshotOf(s.Claim)
	switch {
	case name == "":
		return ""
	case s.Source.Snapshot == nil:
		return fmt.Sprintf("the claim asks to be restored from VolumeSnapshot %s, which does not exist; it waits for "+
			"it", name)
	case !s.Source.SnapshotReady():
		return fmt.Sprintf("the claim asks to be restored from VolumeSnapshot %s, which is not ready; it waits for it",
			name)
	case s.Source.Config == "" && podspec.VolumeOf(s.Source.Content) == nil:
		return unservedContent(s.Source.Content)
	}

	return ""
}

// unservedContent says why nobody knows which ConfigMap a content without a record is of.
func unservedContent(content *snapshotv1.VolumeSnapshotContent) string {
	class := content.Annotations[contract.AnnClass]
	if class == "" {
		return noClass(content.Name)
	}

	return fmt.Sprintf("no valid ConfigMap serves StorageClass %.253q, of which the snapshot of VolumeSnapshotContent "+
		"%s is; the claim waits for one", class, content.Name)
}

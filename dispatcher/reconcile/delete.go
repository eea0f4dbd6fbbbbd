package reconcile

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// remove has the storage of the volume removed. The volume follows.
func (p *Plan) remove(s *snapshot.Snapshot, deletes []snapshot.Attempt) {
	newest, ok := snapshot.Last(deletes)
	switch {
	case !ok:
		if !p.awaitLate(s, s.Of(contract.Provision)) {
			p.orderDelete(s, nil, "")
		}
	case !newest.Outcome.Final():
		p.await(s, newest)
	case !newest.ForVolume(s.Volume):
		p.cleanUp(s, deletes...) // they are for an earlier volume of the same name
	default:
		p.sayFailed(s, newest)
		if at := retryAt(s, newest); s.Now.Before(at) {
			p.delay(at)
			return
		}
		p.orderDelete(s, nil, "")
	}
}

// afterDelete is for delete pods without a volume. They removed the storage of a volume that is gone by now, or undo attempts that
// came to no volume. Either comes to its end before anything else.
func (p *Plan) afterDelete(s *snapshot.Snapshot, all attempts) {
	if running, ok := snapshot.Unfinished(all.deletes); ok {
		p.await(s, running)
		return
	}
	newest, _ := snapshot.Last(all.deletes)
	made, suspected := snapshot.Suspect(all.provisions)
	if newest.Outcome.Phase != podspec.Succeeded {
		p.sayFailed(s, newest)
		if at := retryAt(s, newest); s.Now.Before(at) {
			p.delay(at)
			return
		}
		record := newest
		if suspected {
			record = made
		}
		p.orderDelete(s, record.Pod, record.Node())
		return
	}
	if _, ok := snapshot.Unfinished(all.provisions); ok {
		return
	}
	if newest.Misses(all.provisions) {
		p.cleanUp(s, all.deletes...) // the attempt ran beside the undo, which may have come too early
		return
	}
	if newest.Pod.Annotations[contract.AnnVolumeUID] == "" && s.ClaimLives() {
		p.say(events.Undone(newest.Pod))
	}
	p.Confirm = Volume                              // one that the cache does not show yet would be left without a record
	ended := append(all.provisions, all.deletes...) // the proof goes last
	if s.Pending() {
		p.cleanUpKeepingNames(s, ended...)
	} else {
		p.cleanUp(s, ended...)
	}
}

// awaitLate puts off what must not come before a storage system has done what killed attempts asked it for: storage that is made after
// that would belong to nobody.
func (p *Plan) awaitLate(s *snapshot.Snapshot, provisions []snapshot.Attempt) (waits bool) {
	late := s.LateUntil(provisions)
	if !s.Now.Before(late) {
		return false
	}
	p.requeueAt(late)
	return true
}

// undo has removed what attempts may have made that came to no volume. made is the oldest of them.
func (p *Plan) undo(s *snapshot.Snapshot, provisions []snapshot.Attempt, made snapshot.Attempt) {
	if !p.awaitLate(s, provisions) {
		p.orderDelete(s, made.Pod, made.Node())
	}
}

// orderDelete has storage removed: the volume's, or without one what the record's attempt may have made.
func (p *Plan) orderDelete(s *snapshot.Snapshot, record *corev1.Pod, node string) {
	if reason, why := protection(s); reason != podspec.ReasonNone {
		p.protect(s, record, reason, why)
		return
	}
	switch _, repaired := Find[RepairVolume](*p); {
	case s.PoliciesMissing != "":
		p.sayDeletionWaits(s, record, events.ReasonPoliciesMissing, s.PoliciesMissing)
		return
	case s.Config == nil:
		p.sayDeletionWaits(s, record, events.ReasonConfigMissing, s.ConfigProblem)
		return
	case repaired:
		return // the volume comes back with the identity that it has to have
	}
	if s.Volume != nil {
		if _, doubt := s.VolumeIdentity(); doubt != "" {
			p.protect(s, record, events.ReasonRecord, doubt)
			return
		}
	}
	if !s.Config.NodeLocal {
		node = ""
	}
	// The library takes the finalizer off a volume that is to be retained. Its object may go before its storage: the pods are the record.
	if v := s.Volume; v != nil && !s.Released && v.DeletionTimestamp == nil &&
		(slices.Contains(v.Finalizers, contract.VolumeFinalizer) || v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain) {
		p.do(RetractVolume{})
	}
	p.create(s, snapshot.Order{Op: contract.Delete, Record: record, Node: node})
}

// OldVolume is the age from which volumes count for the limit on deletions. Tests and builds make and remove younger ones in any
// number, and nobody has kept anything in them for long.
const OldVolume = 24 * time.Hour

// Old says that a volume counts for the limit.
func Old(v *corev1.PersistentVolume, now time.Time) bool {
	return now.Sub(v.CreationTimestamp.Time) > OldVolume
}

// protection says why storage must not be removed now, although everything else says that it has to be. What is removed is gone for
// ever, while what waits costs a little space. In doubt an administrator is asked.
func protection(s *snapshot.Snapshot) (podspec.Reason, string) {
	if s.DeletionsStopped != "" {
		return events.ReasonStopped, s.DeletionsStopped
	}
	if v := s.Foreign; v != nil && v.Annotations[contract.AnnAllowDelete] != "true" {
		return events.ReasonHeld, fmt.Sprintf("volume %s was made by provisioner %.64q, which may have taken over what an earlier attempt of this dispatcher made; "+
			"if that is to be removed: kubectl annotate pv %s %s=true", v.Name, v.Annotations[contract.ProvisionedBy], v.Name, contract.AnnAllowDelete)
	}
	if s.Volume == nil || !s.Released || len(s.Of(contract.Provision)) > 0 || s.Volume.Annotations[contract.AnnAllowDelete] == "true" {
		return podspec.ReasonNone, ""
	}
	if why := needed(s); why != "" {
		return events.ReasonHeld, fmt.Sprintf("%s; if it is to be removed: kubectl annotate pv %s %s=true", why, s.Volume.Name, contract.AnnAllowDelete)
	}
	if limit := s.DeleteLimit; limit > 0 && Old(s.Volume, s.Now) && s.RecentDeletions > limit {
		return events.ReasonLimit, fmt.Sprintf("more than %d volumes of class %s that are older than a day would be removed within an hour; "+
			"if that is meant, raise the ConfigMap's delete-limit, or kubectl annotate pv NAME... %s=true", limit, s.ClassName, contract.AnnAllowDelete)
	}
	return podspec.ReasonNone, ""
}

// needed says why a released volume looks as if somebody still needed its storage.
func needed(s *snapshot.Snapshot) string {
	ref := s.Volume.Spec.ClaimRef
	switch {
	case podspec.Restored(s.Volume):
		return "the volume was restored from a backup after its pod had made it, and its storage may serve others"
	case ref != nil && string(ref.UID) != s.UID && !podspec.Populated(s.Volume):
		return fmt.Sprintf("the volume was given to another claim, %s/%s with UID %s, than the one that it was made for", ref.Namespace, ref.Name, ref.UID)
	case s.Successor != nil && s.Successor.Spec.VolumeName == s.Volume.Name:
		return fmt.Sprintf("claim %s/%s asks for the volume, but is not the one that the volume names: to give it the volume, remove the volume's spec.claimRef.uid", s.Successor.Namespace, s.Successor.Name)
	}
	return ""
}

// protect leaves storage where it is, and says why.
func (p *Plan) protect(s *snapshot.Snapshot, record *corev1.Pod, reason podspec.Reason, why string) {
	p.ProtectedBy = reason
	p.sayDeletionWaits(s, record, reason, why)
	if reason == events.ReasonLimit {
		p.requeueAt(s.Now.Add(longestDelay)) // the period of the limit ends without a change
	}
}

func (p *Plan) sayDeletionWaits(s *snapshot.Snapshot, record *corev1.Pod, reason podspec.Reason, why string) {
	on := events.OnPod
	switch {
	case s.Volume != nil:
		on = events.OnVolume
	case s.Claim != nil:
		on = events.OnClaim
	}
	p.say(events.DeletionWaits(on, record, reason, why))
}

package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/obstacles"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// attempts are the observed pods whose outcome has not been acted on, by operation.
type attempts struct{ provisions, deletes, expands []observed.Attempt }

// Decide says what to do about a claim.
//
// While an attempt runs, nothing else starts. A volume is the commit: it ends provisioning, whatever the pods say.
// Without a volume, a claim that waits gets attempts. Once nobody waits, what the attempts may have made is removed
// before their pods are.
func Decide(s *observed.Claim) Plan {
	switch {
	case s.Snapshot != nil:
		return decideSnapshot(s)
	case s.Attachment != nil:
		return decideAttachment(s)
	}

	p := decide(s, attempts{s.Of(contract.Provision), s.Of(contract.Delete), s.Of(contract.Expand)})
	p.endRetained(s)
	p.placeFinalizer(s)
	p.Forget = p.Forget && len(s.Retained) == 0 && !s.VolumeGoing() // an event tells that again every hour
	p.spaceRepairs(s)
	p.keepRecords(s)

	return p
}

func decide(s *observed.Claim, all attempts) (p Plan) {
	if running, ok := observed.Unfinished(all.expands); ok {
		p.awaitExpansion(s, running)
		return p
	}

	switch {
	case s.Volume != nil:
		p.withVolume(s, all)
	case len(all.expands) > 0:
		p.acknowledge(s, all.expands...) // their volume is gone
	case len(all.deletes) > 0:
		p.afterDelete(s, all)
	case s.Pending():
		p.provision(s, all.provisions)
	case boundToAbsent(s):
		p.Forget = len(all.provisions) == 0
		p.forgetAttempts(s, all.provisions)
	default:
		p.abandon(s, all.provisions)
	}

	return p
}

// boundToAbsent reports whether the claim is bound to a volume that the cache does not hold yet, or that somebody
// deleted. Its arrival requeues the claim.
func boundToAbsent(s *observed.Claim) bool {
	return s.ClaimLives() && boundToOwn(s)
}

// boundToOwn reports whether the claim is, or was, bound to the volume of its own name.
func boundToOwn(s *observed.Claim) bool {
	return s.Claim != nil && s.Claim.Spec.VolumeName == podspec.VolumeName(s.UID) && s.Foreign == nil
}

// withVolume checks a volume as soon as it exists, and has it removed once no attempt runs, if it cannot serve.
func (p *Plan) withVolume(s *observed.Claim, all attempts) {
	faults := p.checkVolume(s, all.provisions)
	removalAsked := obstacles.RemovalAsked(s, faults)
	deletes, strays := forVolume(all.deletes, s.Volume)
	removed := storageRemoved(s.Volume, deletes)
	p.stopStrayDeletes(s, strays)
	if !removalAsked && !removed {
		p.stopUnaskedDeletes(s, deletes)
	}

	if running, ok := observed.Unfinished(all.provisions); ok {
		p.stopIfLate(s, running)
		return
	}

	expands, others := forVolume(all.expands, s.Volume)
	p.acknowledge(s, others...)
	if !s.Expandable() {
		p.acknowledge(s, expands...)
	}

	if removed {
		// Its storage is gone, whatever has become of the claim and the reclaim policy since. So the volume goes.
		p.do(DeleteVolume{})
		return
	}

	switch {
	case removalAsked:
		p.remove(s, all.deletes)
		return
	case len(faults) > 0: // somebody may have used it, or no pod of this dispatcher made it
		ref := s.Volume.Spec.ClaimRef
		named := ref != nil && string(ref.UID) == s.UID
		served := named || s.Claim.Spec.VolumeName != "" // the binder took it all the same, or the claim has another
		ended := served && !p.awaitLate(s, all.provisions)
		if ended {
			p.acknowledge(s, all.provisions...)
		}

		return
	}

	if _, ok := observed.Unfinished(all.deletes); ok {
		return
	}

	p.served(s, all, expands)
}

// storageRemoved reports whether the newest of the volume's deletes has removed its storage, and no claim is bound to
// it since.
func storageRemoved(v *corev1.PersistentVolume, deletes []observed.Attempt) bool {
	newest, deleting := observed.Last(deletes)
	return deleting && newest.Outcome.Phase == podspec.Succeeded && v.Status.Phase != corev1.VolumeBound
}

// stopStrayDeletes stops deletes that were not created for this volume, and whose storage is the volume's by now. A
// leader that stalled may have created one when there was no volume, and a later leader knew of none when it had the
// volume made.
func (p *Plan) stopStrayDeletes(s *observed.Claim, strays []observed.Attempt) {
	for _, a := range strays {
		if a.Outcome.MayHaveRun {
			p.report(events.StrayDelete(s.Volume, a.Pod))
		}

		if !a.Outcome.Final() && a.Pod.DeletionTimestamp == nil {
			p.do(StopPod{Pod: a.Pod, Kill: true})
		}
	}
}

// stopUnaskedDeletes stops deletes for this volume that have not started and that nothing asks for any more, for
// instance since an administrator retains the volume. One that runs may finish, because what is half removed serves
// nobody. Only for a volume that is bound it is stopped as well. Whoever keeps the volume has to know of those that
// ran.
func (p *Plan) stopUnaskedDeletes(s *observed.Claim, deletes []observed.Attempt) {
	for _, a := range s.All() {
		ofVolume := a.Op == contract.Delete && a.ForVolume(s.Volume)
		if ofVolume && a.Outcome.MayHaveRun && a.Outcome.Phase != podspec.Starting {
			p.Confirm = Everything
			p.report(events.StrayDelete(s.Volume, a.Pod))
		}
	}

	bound := s.Volume.Status.Phase == corev1.VolumeBound
	for _, a := range deletes {
		ends := a.Outcome.Final() || a.Pod.DeletionTimestamp != nil
		if !ends && (bound || a.Outcome.Phase == podspec.Starting) {
			p.Confirm = Everything
			p.do(StopPod{Pod: a.Pod, Kill: bound})
		}
	}
}

// checkVolume says what keeps Kubernetes from binding the volume, and repairs the rest.
func (p *Plan) checkVolume(s *observed.Claim, provisions []observed.Attempt) (faults []string) {
	// One that somebody gave to another claim after it was bound has served this one.
	served := s.Given() && s.Claim != nil && s.Claim.Spec.VolumeName == s.Volume.Name
	if s.ClaimLives() && !served {
		faults = podspec.Misfits(s.Volume, s.Claim)
		if len(faults) > 0 {
			p.reportMisfit(s, faults, provisions)
		}
	}

	if s.HandedOver() {
		faults = nil // they concern the claim that it was made for, and not the one that has it
	}

	if len(provisions) > 0 {
		p.repair(s, provisions)
	}

	return faults
}

func (p *Plan) reportMisfit(s *observed.Claim, faults []string, provisions []observed.Attempt) {
	bound := s.Volume.Status.Phase == corev1.VolumeBound || s.Claim.Spec.VolumeName == s.Volume.Name
	newest, _ := observed.Last(provisions)
	p.report(events.VolumeDoesNotFit(s.Volume, faults, bound, newest.Pod))
}

// repair completes a volume that its pod has made, as long as pods of its attempts exist.
func (p *Plan) repair(s *observed.Claim, provisions []observed.Attempt) {
	record := s.ExpectedRecord(provisions)
	if record != nil {
		// It says that no backup tool made the volume, by a pod that the cache may show for too long.
		p.Confirm = Everything
	}

	repair := podspec.RepairOf(s.Volume, s.ReclaimPolicy(), s.Provisioner, record, s.ExpectedLocation(provisions))
	if repair == nil {
		return
	}

	if repair.Patch != nil {
		p.do(RepairVolume{repair})
	}

	if repair.Kept != "" && s.ClaimLives() {
		p.report(events.VolumeKept(s.Volume, provisions[0].Pod, repair.Kept))
	}

	if len(repair.Faults) > 0 {
		p.report(events.VolumeMended(s.Volume, provisions[0].Pod, repair.Faults))
	}
}

// repairPeriod is how often a volume is repaired at most. Somebody else may undo each repair, and both changes requeue
// the claim.
const repairPeriod = 10 * time.Second

// spaceRepairs puts the plan's actions off if the volume was repaired a moment ago. The cache may not show the repair
// yet. Its arrival requeues the claim.
func (p *Plan) spaceRepairs(s *observed.Claim) {
	_, repairs := Find[RepairVolume](*p)
	ago := s.Now.Sub(s.Repaired)
	lately := ago >= 0 && ago < repairPeriod
	if repairs && lately {
		p.Defer(s.Repaired.Add(repairPeriod))
	}
}

// served is for a volume that can serve: its attempts are acknowledged, and its claim may want it larger.
func (p *Plan) served(s *observed.Claim, all attempts, expands []observed.Attempt) {
	if last, ok := observed.Last(all.provisions); ok && s.ClaimLives() {
		if source := s.CloneToRecord(all.provisions); source != "" {
			p.do(SetCloneOf{source})
		}

		e := events.ProvisioningSucceeded(s.Volume, last.Pod)
		atOnce := all.provisions[0].Number == 0 && !p.warns()
		e.LogOnly = s.Quiet && atOnce
		p.report(e)
	}

	if s.VolumeGoing() {
		p.report(events.VolumeGoing(s.Volume))
	}

	needed := len(all.provisions) > 0 && undecided(s.Volume)
	if s.Pending() || needed {
		return // until the claim is bound, the first pod's name says that it was served
	}

	late := p.awaitLate(s, all.provisions)
	if !late { // until then they hold up a delete
		p.acknowledge(s, all.provisions...)
	}

	if s.Expandable() {
		p.expand(s, all, expands)
		return
	}

	if s.RecordLost() {
		p.reportLostRecord(s)
	}

	if these, _ := forVolume(all.deletes, s.Volume); len(these) > 0 {
		p.Confirm = Everything // they prove that it was released: the cache may be old
	}

	p.acknowledge(s, all.deletes...)
	// A volume that lost its record stays known, so that an event says so once, and again every hour.
	p.Forget = len(s.Attempts) == 0 && !s.RecordLost()
}

// warns reports whether one of the plan's events is a warning.
func (p *Plan) warns() bool {
	return slices.ContainsFunc(p.Events, func(e events.Event) bool { return e.Warning })
}

// undecided reports whether the volume is about to be bound or released. Until then it may turn out unfit, by a claim
// that the cache does not show yet, or because somebody deletes it, and only the pods of its attempts say that it may
// be removed.
func undecided(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumePending }

// forVolume separates the attempts for this volume from those for an earlier one of its name.
func forVolume(list []observed.Attempt, v *corev1.PersistentVolume) (these, others []observed.Attempt) {
	for _, a := range list {
		if a.ForVolume(v) {
			these = append(these, a)
		} else {
			others = append(others, a)
		}
	}

	return these, others
}

// placeFinalizer gives a volume that is bound, or free to be bound, the finalizer that keeps its object until its
// storage is removed, and takes it off one that is to be retained. As long as a pod of an attempt exists, a retained
// volume keeps it: of a volume that an administrator deletes meanwhile, the pod would look like an attempt that came to
// none, whose storage is to be removed.
func (p *Plan) placeFinalizer(s *observed.Claim) {
	v := s.Volume
	if v == nil || !observed.FinalizerMisplaced(v, s.Provisioner) {
		return
	}

	deletes := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	serves := v.Status.Phase == corev1.VolumeBound || v.Status.Phase == corev1.VolumeAvailable
	_, repairs := Find[RepairVolume](*p)
	switch {
	case repairs, deletes && !serves:
		return
	case deletes:
		p.do(SetFinalizer{Present: true})
	case len(s.Attempts) == 0:
		p.Confirm = Everything
		p.do(SetFinalizer{})
	}

	p.Forget = false
}

// noteAfter is how long a volume that may be in use and a pod of its attempts may exist beside each other before the
// pod says so. Few do.
const noteAfter = 5 * time.Second

// noteVolume has a pod say that a volume existed beside it. Whoever takes the volume's finalizer off and deletes it may
// have another volume for the storage. Once the claim is gone too, a pod whose end nobody saw would look like an
// attempt that came to no volume.
func (p *Plan) noteVolume(s *observed.Claim) {
	last, ok := observed.Last(s.Of(contract.Provision))
	if !ok || p.acknowledges(last.Pod) {
		return
	}

	saysSo := last.Outcome.Phase == podspec.Succeeded || last.Pod.Annotations[contract.AnnVolumeSeen] != ""
	if saysSo {
		return
	}

	if lost(s) { // somebody deleted the volume, and may delete the claim next
		p.do(NoteVolume{last, podspec.VolumeName(s.UID)})
		return
	}

	if s.Volume == nil || undecided(s.Volume) {
		return
	}

	// Whoever takes the finalizer off is about to delete the volume, and its claim may be gone before it is seen to be
	// Lost.
	stays := s.Volume.DeletionTimestamp == nil && !observed.FinalizerMisplaced(s.Volume, s.Provisioner)
	early := stays && p.waitsUntil(s, s.Volume.CreationTimestamp.Add(noteAfter))
	if !early {
		p.do(NoteVolume{last, string(s.Volume.UID)})
	}
}

// lost reports whether Kubernetes says that the volume to which the claim was bound does not exist.
func lost(s *observed.Claim) bool {
	return s.Volume == nil && boundToOwn(s) && s.Claim.Status.Phase == corev1.ClaimLost
}

// forgetAttempts ends the attempts of a claim that was bound to their volume, which does not exist any more. As long as
// the claim says so it is known that they came to a volume, and that there is nothing to undo.
func (p *Plan) forgetAttempts(s *observed.Claim, provisions []observed.Attempt) {
	if _, running := observed.Unfinished(provisions); running || len(provisions) == 0 {
		return
	}

	p.Confirm = Everything
	p.acknowledge(s, provisions...)
}

// reportAbandoned says what becomes of a pod that runs although its claim is gone.
func (p *Plan) reportAbandoned(s *observed.Claim, running observed.Attempt) {
	if s.ClaimLives() {
		return
	}

	p.report(events.Abandoned(events.For(running.Op, s.Holder(), s.Volume), running.Pod))
	p.awaitNode(s, running)
	p.awaitAnswer(s, running)
	if running.Outcome.Phase == podspec.Running {
		p.awaitDeadline(s, running)
	}
}

// awaitProvision is for an attempt that has not ended, and that came to no volume.
func (p *Plan) awaitProvision(s *observed.Claim, running observed.Attempt) {
	switch {
	case s.Pending():
		p.await(s, running)
	case running.Pod.Spec.NodeName == "" || running.Outcome.Reason != podspec.ReasonNone:
		p.Confirm = Everything
		p.stop(running)
	default:
		p.reportAbandoned(s, running)
		p.stopIfLate(s, running) // it may be about to create the volume: it may finish
	}
}

// abandon is for attempts that nobody waits for and that came to no volume. The cache may not show yet who waits for
// them, and the names of their pods keep others from making the first one again.
func (p *Plan) abandon(s *observed.Claim, provisions []observed.Attempt) {
	if running, ok := observed.Unfinished(provisions); ok {
		p.awaitProvision(s, running)
		return
	}

	if made, ok := observed.Suspect(provisions); ok && !obstacles.Kept(s) {
		p.undo(s, provisions, made)
		return
	}

	if len(provisions) > 0 {
		p.Confirm = Everything
	}

	p.acknowledge(s, provisions...)
	// A claim that waits for another provisioner comes back with its class, of which the claim itself says nothing.
	waits := s.ClaimLives() && s.Claim.Spec.VolumeName == ""
	p.Forget = len(provisions) == 0 && !waits
}

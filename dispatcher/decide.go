package dispatcher

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// decide says what to do about one claim's UID. It is pure, and right at every moment at which a dispatcher may have
// died: it looks at what exists, never at what was done before.
//
// The order is this. While an attempt runs, nothing else starts. A volume is the commit: it ends provisioning, whatever
// the pods say. Without a volume, a claim that waits gets attempts; and once nobody waits, what the attempts may have
// made is removed before their records are.
func decide(f *facts) plan {
	provisions, deletes, expands := f.of(contract.Provision), f.of(contract.Delete), f.of(contract.Expand)
	if running, ok := unfinished(expands); ok {
		return expansion(f, plan{}, running)
	}
	switch {
	case f.volume != nil:
		return withVolume(f, provisions, deletes, expands)
	case len(expands) > 0:
		return plan{settle: pods(expands)} // their volume is gone
	case len(deletes) > 0:
		return undoing(f, provisions, deletes)
	case f.waiting():
		return provisioning(f, provisions)
	case f.live() && f.claim.Spec.VolumeName == podspec.VolumeName(f.uid):
		// Bound to a volume that the cache does not hold yet, or that is lost: its arrival brings us back.
		return plan{forget: len(provisions) == 0}
	default:
		return abandoned(f, provisions)
	}
}

// waiting says that the claim lives and has no volume, so that one is to be made for it.
func (f *facts) waiting() bool { return f.live() && f.claim.Spec.VolumeName == "" }

// withVolume: the volume exists. It is checked as soon as it does, and undone once no attempt runs, if it cannot serve.
func withVolume(f *facts, provisions, deletes, expands []attempt) plan {
	var p plan
	var faults []string
	if f.live() {
		faults = podspec.Misfits(f.volume, f.claim)
		if len(faults) > 0 {
			p.reports = append(p.reports, report{on: onClaim, warning: true, reason: ReasonVolumeMismatch, key: string(f.volume.UID),
				message: fmt.Sprintf("volume %s does not fit the claim: %s", f.volume.Name, joined(faults))})
		}
	}
	if len(provisions) > 0 {
		if p.mend = podspec.Mend(f.volume, f.reclaim(), f.provisioner, f.rightRecord(provisions)); p.mend != nil {
			p.reports = append(p.reports, report{on: onClaim, pod: provisions[0].pod, warning: true, reason: ReasonVolumeMended, key: "mended/" + string(f.volume.UID),
				message: fmt.Sprintf("volume %s was mended, the provisioner should make it so: %s", f.volume.Name, joined(p.mend.Faults))})
		}
	}
	if running, ok := unfinished(provisions); ok {
		return overdue(f, p, running)
	}
	expands, others := ofVolume(expands, f.volume)
	p.settle = pods(others)
	if !f.growable() {
		p.settle = append(p.settle, pods(expands)...)
	}
	if newest, ok := last(deletes); ok && newest.outcome.Phase == podspec.Succeeded && f.volume.Status.Phase != corev1.VolumeBound &&
		newest.pod.Annotations[contract.AnnVolumeUID] == string(f.volume.UID) {
		// Its storage is gone, whatever has become of the claim and the reclaim policy since: so goes the volume.
		p.dropVolume = true
		return p
	}
	ours := len(provisions) > 0 && f.volume.Status.Phase != corev1.VolumeBound
	strayed := !f.live() && (f.volume.Spec.ClaimRef == nil || string(f.volume.Spec.ClaimRef.UID) != f.uid)
	switch {
	case f.released, ours && (len(faults) > 0 || strayed), begun(f.volume, deletes):
		return removal(f, p, deletes)
	case len(faults) > 0:
		// Bound to something, or not made by a pod of ours: to delete it could destroy data. It has been reported.
		return p
	}
	if _, ok := unfinished(deletes); ok {
		return p
	}
	if len(provisions) > 0 && f.live() {
		p.cloneOf = unansweredClone(f.claim, provisions)
		p.reports = append(p.reports, report{on: onClaim, reason: ReasonSucceeded, key: string(f.volume.UID), lone: provisions[0].number == 0,
			message: fmt.Sprintf("pod %s made volume %s", provisions[len(provisions)-1].pod.Name, f.volume.Name)})
	}
	if f.waiting() {
		return p // to be bound: until then the first pod's name says that the claim was served
	}
	p.settle = append(p.settle, pods(provisions)...)
	if f.growable() {
		return growing(f, p, expands)
	}
	if !awaitsDeletion(f.volume) {
		// Otherwise a finished delete pod is the proof that spares the volume a second one.
		if f.volume.Status.Phase != corev1.VolumeBound && f.volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete {
			_, deletes = ofVolume(deletes, f.volume) // its own tell that it was released: it is the cache that is old
		}
		p.settle = append(p.settle, pods(deletes)...)
		p.forget = len(f.attempts) == 0
	}
	return p
}

// begun says that the removal of an unfit volume has begun. What is half removed cannot serve anybody any more.
func begun(v *corev1.PersistentVolume, deletes []attempt) bool {
	return v.Status.Phase != corev1.VolumeBound && slices.ContainsFunc(deletes, func(a attempt) bool {
		return a.pod.Annotations[contract.AnnUndo] != "" && a.pod.Annotations[contract.AnnVolumeUID] == string(v.UID)
	})
}

// awaitsDeletion says that the library is about to hand the volume over for deletion.
func awaitsDeletion(v *corev1.PersistentVolume) bool {
	return v.Status.Phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
}

// removal takes the storage of the volume away, and then the volume.
func removal(f *facts, p plan, deletes []attempt) plan {
	newest, ok := last(deletes)
	if !ok {
		return orderDelete(f, p, nil, "")
	}
	if !newest.outcome.Final() {
		return watch(f, p, newest)
	}
	if newest.pod.Annotations[contract.AnnVolumeUID] != string(f.volume.UID) {
		p.settle = append(p.settle, pods(deletes)...) // they belong to a volume of the same name before this one
		return p
	}
	p.reports = append(p.reports, f.failed(newest))
	if at := f.retry(newest); f.now.Before(at) {
		p.look(at)
		return p
	}
	return orderDelete(f, p, nil, "")
}

// undoing: there is no volume, but there are delete pods. They removed the storage of a volume that is gone by now, or
// undo attempts that came to no volume; either is taken to its end before anything else.
func undoing(f *facts, provisions, deletes []attempt) plan {
	var p plan
	if running, ok := unfinished(deletes); ok {
		return watch(f, p, running)
	}
	newest, _ := last(deletes)
	if newest.outcome.Phase == podspec.Succeeded {
		if _, ok := unfinished(provisions); ok {
			return p
		}
		if made, ok := suspect(provisions); ok && made.outcome.Finished.After(newest.pod.CreationTimestamp.Time) {
			p.settle = pods(deletes) // it ran beside the undo, which may have come too early
			return p
		}
		if newest.pod.Annotations[contract.AnnVolumeUID] == "" && f.live() {
			p.reports = append(p.reports, report{on: onClaim, reason: ReasonUndone, key: string(newest.pod.UID),
				message: "what earlier attempts had made was removed"})
		}
		p.check = true                                    // a volume that the cache does not show yet would keep its object
		all := append(pods(provisions), pods(deletes)...) // the proof goes last
		if f.waiting() {
			p.retire = all
		} else {
			p.settle = all
		}
		return p
	}
	p.reports = append(p.reports, f.failed(newest))
	if at := f.retry(newest); f.now.Before(at) {
		p.look(at)
		return p
	}
	record, node := newest.pod, newest.node()
	if made, ok := suspect(provisions); ok {
		record, node = made.pod, made.node()
	}
	return orderDelete(f, p, record, node)
}

// provisioning: the claim waits and there is no volume.
func provisioning(f *facts, provisions []attempt) plan {
	var p plan
	if running, ok := unfinished(provisions); ok {
		return watch(f, p, running)
	}
	newest, tried := last(provisions)
	if tried {
		p.reports = append(p.reports, f.failed(newest))
		p.confirm = newest.outcome.Phase == podspec.Succeeded // the volume may be on its way to the cache
	}
	made, suspected := suspect(provisions)
	if tried && f.claimNode() != "" && elsewhere(newest) && !suspected {
		p.reschedule = true
		p.retire = pods(provisions)
		return p
	}
	if !f.wanted {
		p.handOver, p.forget = true, !tried
		return p
	}
	if reason, message := f.obstacle(); reason != podspec.ReasonNone {
		p.reports = append(p.reports, report{on: onClaim, warning: true, reason: reason, key: string(reason) + "/" + message, message: message})
		return p
	}
	switch {
	case suspected && identityChanged(f, made):
		// The earlier attempt's storage would not be found again by the new properties.
		p.reports = append(p.reports, report{on: onClaim, reason: ReasonUndo, key: "undo/" + made.pod.Name,
			message: "what is asked for changed: what earlier attempts may have made is removed first"})
		return orderDelete(f, p, made.pod, made.node())
	case f.now.Before(f.earliest()):
		p.look(f.earliest())
		return p
	}
	p.confirm = true
	p.create = &order{op: contract.Provision, number: f.next(contract.Provision), node: f.claimNode(), replaces: f.replaced(contract.Provision)}
	if suspected {
		p.create.record = made.pod
		if node := made.node(); f.config.NodeLocal && node != "" {
			p.create.node = node
		}
	}
	return p
}

// abandoned: nobody waits for a volume, none exists, and none was asked to be removed.
func abandoned(f *facts, provisions []attempt) plan {
	var p plan
	if running, ok := unfinished(provisions); ok {
		if running.pod.Spec.NodeName == "" || running.outcome.Reason != podspec.ReasonNone {
			return halt(p, running)
		}
		return overdue(f, p, running) // it may be about to create the volume: let it finish
	}
	if made, ok := suspect(provisions); ok {
		return orderDelete(f, p, made.pod, made.node())
	}
	p.settle = pods(provisions)
	p.forget = len(provisions) == 0
	return p
}

// orderDelete starts an attempt to remove storage: the volume's, or without one what the record's attempt may have made.
func orderDelete(f *facts, p plan, record *corev1.Pod, node string) plan {
	switch reason, why := f.hold(); {
	case reason != podspec.ReasonNone:
		return held(f, p, record, reason, why)
	case f.uncontained != "":
		p.reports = append(p.reports, f.waits(record, ReasonUncontained, f.uncontained))
		return p
	case f.config == nil:
		p.reports = append(p.reports, f.waits(record, ReasonConfigMissing, f.configProblem))
		return p
	case p.mend != nil:
		return p // the volume comes back with the identity that it has to have
	}
	if f.volume != nil {
		if _, doubt := f.volumeIdentity(); doubt != "" {
			return held(f, p, record, ReasonRecord, doubt)
		}
	}
	if !f.config.NodeLocal {
		node = ""
	}
	p.confirm = true
	p.create = &order{op: contract.Delete, number: f.next(contract.Delete), record: record, node: node, replaces: f.replaced(contract.Delete)}
	return p
}

// watch is what is done about an attempt that has not ended: its troubles are told, and one that does not start in time,
// or was overtaken by a new ConfigMap, is stopped. One that runs is bounded by its own deadline.
func watch(f *facts, p plan, a attempt) plan {
	if a.outcome.Reason != podspec.ReasonNone {
		p.reports = append(p.reports, f.told(a, a.outcome.Reason, a.outcome.Message))
	}
	if a.outcome.Phase == podspec.Running {
		return deadline(f, p, a)
	}
	if a.op == contract.Delete && f.stopped != "" && a.outcome.Phase == podspec.Starting {
		return halt(held(f, p, a.pod, ReasonStopped, f.stopped), a)
	}
	if a.outcome.Phase != podspec.Starting || a.pod.DeletionTimestamp != nil || f.config == nil {
		return p
	}
	switch {
	case f.overtaken(a) && a.outcome.Reason != podspec.ReasonNone:
		return halt(p, a)
	case !f.now.Before(f.startBound(a)):
		p.reports = append(p.reports, f.told(a, ReasonStartTimeout, fmt.Sprintf("the pod did not start within %s: %s", f.config.StartTimeout, orUnknown(a.outcome.Message))))
	case a.op == contract.Provision && a.outcome.Reason == podspec.ReasonUnschedulable && f.claimNode() != "":
		patience := a.pod.CreationTimestamp.Add(unschedulableGrace)
		if !f.now.Before(patience) {
			return halt(p, a)
		}
		p.look(patience)
	}
	return overdue(f, p, a)
}

// deadline tells of a pod's deadline when it passes. The kubelet says so only after the container has ended, for which a
// shell that heeds no signal takes all of its grace period.
func deadline(f *facts, p plan, a attempt) plan {
	if a.pod.Status.StartTime == nil || a.pod.Spec.ActiveDeadlineSeconds == nil {
		return p
	}
	seconds := *a.pod.Spec.ActiveDeadlineSeconds
	if end := a.pod.Status.StartTime.Add(time.Duration(seconds) * time.Second); f.now.Before(end) {
		p.look(end)
		return p
	}
	p.reports = append(p.reports, f.told(a, podspec.ReasonDeadline, fmt.Sprintf("the pod ran into its deadline of %ds", seconds)))
	return p
}

// overdue stops a pod that has not been seen to run by the time it must have started.
func overdue(f *facts, p plan, a attempt) plan {
	if a.outcome.Phase != podspec.Starting || a.pod.DeletionTimestamp != nil || f.config == nil {
		return p
	}
	if bound := f.startBound(a); f.now.Before(bound) {
		p.look(bound)
		return p
	}
	return halt(p, a)
}

func (f *facts) startBound(a attempt) time.Time {
	return a.pod.CreationTimestamp.Add(f.config.StartTimeout)
}

func halt(p plan, a attempt) plan {
	if a.pod.DeletionTimestamp == nil {
		p.stop = append(p.stop, a.pod)
	}
	return p
}

// overtaken says that the ConfigMap changed since the attempt was ordered.
func (f *facts) overtaken(a attempt) bool {
	return f.config != nil && !strings.HasSuffix(a.pod.Annotations[contract.AnnConfig], "@"+f.config.Digest)
}

// identityChanged says that the next attempt would make something else than this one may have made.
func identityChanged(f *facts, a attempt) bool {
	request, err := podspec.RequestOf(a.pod)
	return err == nil && (!sameIdentity(request.Identity, f.identity()) || !reflect.DeepEqual(request.Source, f.source()))
}

// elsewhere says that an attempt ended because of its node, and made nothing there.
func elsewhere(a attempt) bool {
	return a.outcome.Reason == podspec.ReasonNotHere || !a.outcome.MayHaveRun && a.pod.Spec.NodeName == ""
}

// retry is when a failed attempt is followed by the next: at once if the ConfigMap changed, since that may be the cure.
func (f *facts) retry(a attempt) time.Time {
	if f.overtaken(a) {
		return f.now
	}
	return retryAt(a)
}

// earliest is when the next provision has its turn. It follows the latest one, also if that was retired after what it
// made had been removed: a provisioner that makes unfit volumes is not asked for the next one at once.
func (f *facts) earliest() time.Time {
	var latest attempt
	for _, a := range append(slices.Clone(f.kept), f.attempts...) {
		if a.op == contract.Provision && (latest.pod == nil || older(latest, a)) {
			latest = a
		}
	}
	if latest.pod == nil {
		return time.Time{}
	}
	return f.retry(latest)
}

// failed reports how an attempt ended without what it was asked for.
func (f *facts) failed(a attempt) report {
	reason, message := a.outcome.Reason, a.outcome.Message
	if a.outcome.Phase == podspec.Succeeded {
		reason, message = ReasonNoVolume, fmt.Sprintf("the container exited with code 0, but volume %s does not exist", podspec.VolumeName(f.uid))
	}
	if a.pod.DeletionTimestamp != nil && !a.outcome.MayHaveRun {
		return report{} // stopped by us, for a reason that has been told
	}
	r := f.told(a, reason, message)
	r.logs = a.outcome.MayHaveRun && !a.outcome.OwnWords
	return r
}

// told is a report about an attempt to whoever waits for it.
func (f *facts) told(a attempt, reason podspec.Reason, message string) report {
	r := report{on: onClaim, pod: a.pod, warning: true, reason: reason, key: a.pod.Name + "/" + string(reason),
		message: fmt.Sprintf("%s (pod %s/%s)", message, a.pod.Namespace, a.pod.Name)}
	switch {
	case a.op == contract.Delete && f.volume != nil:
		r.on = onVolume
	case f.claim == nil:
		r.on = onPod
	}
	return r
}

func orUnknown(message string) string {
	if message == "" {
		return "nothing says why"
	}
	return message
}

func pods(attempts []attempt) []*corev1.Pod {
	var list []*corev1.Pod
	for _, a := range attempts {
		list = append(list, a.pod)
	}
	return list
}

// replaced are the pods that the operation's next attempt makes superfluous.
func (f *facts) replaced(op contract.Operation) []*corev1.Pod {
	list := pods(f.of(op))
	for _, a := range f.kept {
		if a.op == op {
			list = append(list, a.pod)
		}
	}
	return list
}

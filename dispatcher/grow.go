package dispatcher

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Reasons of events about expansions. docs/events.md explains each.
const (
	ReasonExpanded         podspec.Reason = "ExpansionSucceeded"
	ReasonExpansionRefused podspec.Reason = "ExpansionRefused"
)

// growing decides about the size of a bound volume. As the volume is the commit of a provision, its capacity is that of an
// expansion: it is written once a pod has said that the storage is so large, and only then does the claim follow. So there
// are three sizes, and the smallest step that is missing is taken: what the storage has (a pod's exit 0), what the volume
// says, and what the claim's status says.
//
// The claim is marked as external-resizer marks it, since the API server, quotas and the kubelet read those marks. A size
// whose attempt ended without a word (killed, deadline) may have been reached: it is tried until somebody says, even where
// the user asks for less by now. Otherwise a quota could be had for nothing.
func growing(f *facts, p plan, expands []attempt) plan {
	made := capacityOf(f.volume)
	newest, tried := last(expands)
	done := tried && newest.outcome.Phase == podspec.Succeeded
	if done && newest.size > made.Value() {
		p.grow = resource.NewQuantity(newest.size, resource.BinarySI)
		return p
	}
	if done {
		p.reports = append(p.reports, f.expanded(newest))
	}
	target := f.target(expands)
	p.settle = append(p.settle, pods(f.of(contract.Delete))...)
	if m := follow(f, made, target.Cmp(made) <= 0); m != nil {
		p.mark = m
		return p
	}
	if target.Cmp(made) <= 0 || f.onNode() {
		if target.Cmp(made) <= 0 || done {
			p.settle = append(p.settle, pods(expands)...)
		}
		p.forget = len(f.attempts) == 0
		return p
	}
	return f.expand(p, expands, target)
}

// follow is how the claim is brought to the size of its volume, nil where it is there. all says that the volume has all
// that is wanted.
func follow(f *facts, made resource.Quantity, all bool) *marking {
	has := f.claim.Status.Capacity[corev1.ResourceStorage]
	status := f.claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	switch {
	case has.Cmp(made) < 0 && growerOf(f.volume) == kubelet:
		if onNode(status) || status == corev1.PersistentVolumeClaimNodeResizeInfeasible {
			return nil
		}
		return nodePending(f.claim, made)
	case has.Cmp(made) < 0, all && marked(f.claim):
		return finished(f.claim, made)
	}
	return nil
}

// expand starts the next attempt, or says why there is none.
func (f *facts) expand(p plan, expands []attempt, target resource.Quantity) plan {
	if f.config == nil || f.uncontained != "" {
		r := report{on: onClaim, warning: true, reason: ReasonConfigMissing, message: f.configProblem}
		if f.uncontained != "" {
			r.reason, r.message = ReasonUncontained, f.uncontained
		}
		r.key = string(r.reason) + "/" + r.message
		r.message = "the volume waits to be expanded: " + r.message
		p.reports = append(p.reports, r)
		return p
	}
	if _, doubt := f.volumeIdentity(); doubt != "" {
		p.reports = append(p.reports, report{on: onClaim, warning: true, reason: ReasonRecord, key: string(ReasonRecord) + "/" + doubt,
			message: "the volume waits to be expanded: " + doubt})
		return p
	}
	if why := f.cannotGrow(target); why != "" {
		p.reports = append(p.reports, report{on: onClaim, warning: true, reason: ReasonExpansionRefused, key: "expansion/" + why, message: why})
		p.mark = infeasible(f.claim, why)
		return p
	}
	newest, tried := last(expands)
	if tried && newest.outcome.Phase == podspec.Failed {
		r := f.failed(newest)
		p.reports = append(p.reports, r)
		if newest.size == target.Value() {
			if r.key != "" {
				p.mark = failing(f.claim, target, newest.outcome.Reason == podspec.ReasonRefused, r.message)
			}
			if at := f.retry(newest); f.now.Before(at) {
				p.look(at)
				return p
			}
		}
	}
	p.confirm = true
	if p.mark == nil {
		p.mark = inProgress(f.claim, target)
	}
	p.create = &order{op: contract.Expand, number: f.next(contract.Expand), size: target.Value(), suspect: tried && newest.unclear(),
		replaces: f.replaced(contract.Expand)}
	return p
}

// target is the size to reach: the claim's, or a larger one that an attempt may have reached.
func (f *facts) target(expands []attempt) resource.Quantity {
	asked := requestOf(f.claim)
	if newest, ok := last(expands); ok && newest.unclear() && newest.size > asked.Value() {
		return *resource.NewQuantity(newest.size, resource.BinarySI)
	}
	return asked
}

// unclear says that an attempt may have left larger storage without a word, or that it followed such a one and did not
// find out: who refuses, or never starts, says nothing about an attempt before it.
func (a attempt) unclear() bool {
	return a.outcome.Unclear() || a.pod.Annotations[contract.AnnSuspect] != "" && a.outcome.Phase == podspec.Failed && a.outcome.Reason != podspec.ReasonFailed
}

// cannotGrow says why no pod is asked to expand the volume to the size, empty where one is.
func (f *facts) cannotGrow(target resource.Quantity) string {
	refused := refusedSize(target, f.config)
	switch {
	case !f.config.Expandable:
		return fmt.Sprintf("class %s cannot expand volumes: its ConfigMap %s has neither the script \"expand\" nor expandable: \"true\"", f.class, f.config.Name)
	case refused != "":
		return refused
	case growerOf(f.volume) == nobody:
		return fmt.Sprintf("volume %s is %s with a file system, which neither Kubernetes nor a provisioner pod can grow: use volumeMode Block, "+
			"or copy the data to a larger claim", f.volume.Name, sourceOf(f.volume))
	}
	return ""
}

// growable says that the size of the claim's volume is ours to decide about: it is bound on both sides, and made by this
// dispatcher.
func (f *facts) growable() bool {
	return f.live() && podspec.Bound(f.claim, f.volume) && f.volume.Annotations[contract.ProvisionedBy] == f.provisioner
}

// unsettled says that a bound claim's size is not what it asks for, or is marked as on its way there. Claims of which it is
// not true need no look.
func unsettled(claim *corev1.PersistentVolumeClaim) bool {
	asked, has := requestOf(claim), claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && (asked.Cmp(has) > 0 || marked(claim))
}

// withdrawn says that an attempt was started for a size that the user no longer asks for.
func (f *facts) withdrawn(a attempt) bool {
	asked := requestOf(f.claim)
	return a.size > asked.Value()
}

// expansion: an attempt to expand runs. Nothing else starts beside it. One that nobody needs any more is stopped, if it
// certainly does not run.
func expansion(f *facts, p plan, a attempt) plan {
	idle := a.pod.Spec.NodeName == "" || a.outcome.Reason != podspec.ReasonNone && a.outcome.Phase == podspec.Starting
	switch {
	case idle && (f.volume == nil || !f.growable() || f.withdrawn(a)):
		return halt(p, a)
	case f.volume == nil || !f.growable():
		return overdue(f, p, a)
	}
	return watch(f, p, a)
}

// expanded reports a success. Its place is after the volume says so.
func (f *facts) expanded(a attempt) report {
	size := resource.NewQuantity(a.size, resource.BinarySI)
	message := fmt.Sprintf("pod %s expanded volume %s to %s", a.pod.Name, f.volume.Name, size)
	if growerOf(f.volume) == kubelet {
		message += "; its node finishes it once a pod uses the claim"
	}
	return report{on: onClaim, reason: ReasonExpanded, key: "expanded/" + a.pod.Name + "/" + size.String(), message: message}
}

// onNode says that the kubelet has an expansion in hand.
func (f *facts) onNode() bool {
	return onNode(f.claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage])
}

func onNode(status corev1.ClaimResourceStatus) bool {
	return status == corev1.PersistentVolumeClaimNodeResizePending || status == corev1.PersistentVolumeClaimNodeResizeInProgress
}

// ofVolume parts the attempts for this volume from those for an earlier one of its name.
func ofVolume(attempts []attempt, v *corev1.PersistentVolume) (ours, others []attempt) {
	for _, a := range attempts {
		if a.pod.Annotations[contract.AnnVolumeUID] == string(v.UID) {
			ours = append(ours, a)
		} else {
			others = append(others, a)
		}
	}
	return ours, others
}

func requestOf(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

func capacityOf(v *corev1.PersistentVolume) resource.Quantity {
	return v.Spec.Capacity[corev1.ResourceStorage]
}

// grower is who makes larger storage usable.
type grower string

const (
	// itself: a larger device or directory is all there is to it.
	itself grower = "itself"
	// kubelet: the node grows the file system, or says that nothing needs to be done.
	kubelet grower = "kubelet"
	// nobody: there is a file system on a device, and the kubelet's code for the volume type does not grow it.
	nobody grower = "nobody"
)

// growerOf follows what the kubelet does for each volume type: docs/design-notes.md has the evidence.
func growerOf(v *corev1.PersistentVolume) grower {
	source := sourceOf(v)
	switch {
	case source == "csi":
		return kubelet
	case podspec.ModeOf(v.Spec.VolumeMode) == corev1.PersistentVolumeBlock, slices.Contains([]string{"nfs", "hostPath"}, source):
		return itself
	case source == "local":
		return kubelet
	}
	return nobody
}

// sourceOf names the volume's type as its spec does.
func sourceOf(v *corev1.PersistentVolume) string {
	switch s := v.Spec.PersistentVolumeSource; {
	case s.CSI != nil:
		return "csi"
	case s.NFS != nil:
		return "nfs"
	case s.HostPath != nil:
		return "hostPath"
	case s.Local != nil:
		return "local"
	case s.ISCSI != nil:
		return "iscsi"
	case s.FC != nil:
		return "fc"
	}
	return "of another type"
}

package dispatcher

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

const (
	// youngVolume is the age up to which volumes do not count for the limit: tests and builds make and remove them in any
	// number, and nobody has kept anything in them for long.
	youngVolume = 24 * time.Hour
	// limitPeriod is the time that the limit is for.
	limitPeriod = time.Hour
	// slowClocks is by how much the clocks of the dispatcher and the API server may differ, and a pod may be late that no
	// dispatcher stopped in time, before a volume is taken for a copy.
	slowClocks = time.Hour
)

// hold says why storage must not be removed now, although all else says that it is to be. What is removed is gone for
// ever, while what waits costs a little space: in doubt an administrator is asked.
func (f *facts) hold() (podspec.Reason, string) {
	if f.stopped != "" {
		return ReasonStopped, f.stopped
	}
	if f.volume == nil || !f.released || len(f.of(contract.Provision)) > 0 || f.volume.Annotations[contract.AnnAllowDelete] == "true" {
		return podspec.ReasonNone, ""
	}
	if why := f.suspicious(); why != "" {
		return ReasonHeld, fmt.Sprintf("%s; if it is to be removed: kubectl annotate pv %s %s=true", why, f.volume.Name, contract.AnnAllowDelete)
	}
	if limit := f.deleteLimit; limit > 0 && old(f.volume, f.now) && f.doomed > limit {
		return ReasonLimit, fmt.Sprintf("more than %d volumes of class %s that are older than a day would be removed within an hour; "+
			"if that is meant, raise the ConfigMap's delete-limit, or kubectl annotate pv NAME... %s=true", limit, f.class, contract.AnnAllowDelete)
	}
	return podspec.ReasonNone, ""
}

// suspicious says why a released volume looks as if somebody still needed its storage.
func (f *facts) suspicious() string {
	ref := f.volume.Spec.ClaimRef
	switch {
	case podspec.Restored(f.volume):
		return "the volume was restored from a backup after its pod had made it, and its storage may serve others"
	case ref != nil && string(ref.UID) != f.uid:
		return fmt.Sprintf("the volume was given to another claim, %s/%s with UID %s, than the one that it was made for", ref.Namespace, ref.Name, ref.UID)
	case f.heir != nil && f.heir.Spec.VolumeName == f.volume.Name:
		return fmt.Sprintf("claim %s/%s asks for the volume, but is not the one that the volume names: to give it the volume, remove the volume's spec.claimRef.uid", f.heir.Namespace, f.heir.Name)
	}
	return ""
}

func old(v *corev1.PersistentVolume, now time.Time) bool {
	return now.Sub(v.CreationTimestamp.Time) > youngVolume
}

// held puts off an attempt to remove storage, and says why.
func held(f *facts, p plan, record *corev1.Pod, reason podspec.Reason, why string) plan {
	p.held = reason
	p.reports = append(p.reports, f.waits(record, reason, why))
	if reason == ReasonLimit {
		p.look(f.now.Add(longestDelay)) // the period of the limit goes by without an event
	}
	return p
}

// waits is a report that storage waits to be removed, to whoever waits with it.
func (f *facts) waits(record *corev1.Pod, reason podspec.Reason, why string) report {
	r := report{on: onVolume, pod: record, warning: true, reason: reason, key: string(reason) + "/" + why, message: "storage waits to be removed: " + why}
	switch {
	case f.volume != nil:
	case f.claim != nil:
		r.on = onClaim
	default:
		r.on = onPod
	}
	return r
}

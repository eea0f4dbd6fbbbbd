package obstacles

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// oldVolume is the age from which volumes count for the limit on deletions. Tests and builds make and remove younger ones in any
// number, and nobody has kept anything in them for long.
const oldVolume = 24 * time.Hour

// Old reports whether a volume counts for the limit.
func Old(v *corev1.PersistentVolume, now time.Time) bool {
	return now.Sub(v.CreationTimestamp.Time) > oldVolume
}

// Protection says why storage must not be removed now, although everything else says that it has to be. What is removed is gone for
// ever, while what waits costs a little space. In doubt an administrator is asked.
func Protection(s *snapshot.Snapshot) (podspec.Reason, string) {
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

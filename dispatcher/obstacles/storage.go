package obstacles

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ToStorage is what keeps a pod from the storage that it is to work on: a claim that it mounts is not bound, or has
// other storage than the record says. In another place a delete would find nothing, and the volume's storage would
// belong to nobody. madeBy is the pod whose attempt an undo is for.
func ToStorage(s *observed.Claim, op contract.Operation, madeBy *corev1.Pod) (podspec.Reason, string) {
	storage, doubt := s.StorageOf(op, madeBy)
	if doubt != "" {
		return events.ReasonRecord, doubt
	}

	if s.Places == nil { // who asks may not read the claims that pods mount
		return podspec.ReasonNone, ""
	}

	for _, m := range storage.Mounts {
		if m.Claim == "" {
			continue
		}

		place := s.Places[m.Claim]
		elsewhere := m.Source != "" && place.Source != m.Source
		switch {
		case storage.Recorded && (place.Problem != "" || elsewhere):
			return events.ReasonStorageMoved, moved(s, m, place, madeBy)
		case place.Problem != "" && !place.FirstPod:
			return events.ReasonMountNotBound, fmt.Sprintf("%s, and ConfigMap %s mounts it at %s; bind it, or "+
				"correct the ConfigMap", place.Problem, s.Config.Name, m.Path)
		}
	}

	return podspec.ReasonNone, ""
}

// moved names both places, and says what an administrator can do.
func moved(s *observed.Claim, m contract.Mount, place observed.Place, madeBy *corev1.Pod) string {
	was, now := m.Claim, place.Problem
	if m.Source != "" {
		was += " (" + shown(m.Source) + ")"
	}

	if now == "" {
		now = "that claim is " + shown(place.Source) + " now"
	}

	made := fmt.Sprintf("was made with claim %s at %s, and %s: bring back the claim with that storage",
		was, m.Path, now)
	if s.Volume == nil {
		return fmt.Sprintf("what an earlier attempt may have made %s; or if nothing of it is left: kubectl -n %s "+
			"annotate %s %s %s=true",
			made, madeBy.Namespace, s.KindOf(madeBy), madeBy.Name, contract.AnnSettled)
	}

	if s.Snapshot != nil && s.Snapshot.Content != nil { // it is a volume that was, recorded on the content
		return fmt.Sprintf("volume %s %s", s.Volume.Name, made)
	}

	return fmt.Sprintf("volume %s %s; or if its storage is what class %s mounts now: kubectl annotate pv %[1]s "+
		"--overwrite %[4]s=%[5]s %[6]s-",
		s.Volume.Name, made, s.ClassName, contract.AnnRecord, contract.RecordTrusted, contract.AnnMounts)
}

// shown is a source in a message. Two of them and a command have to fit into one.
func shown(source string) string { return podspec.Clip(source, 160) }

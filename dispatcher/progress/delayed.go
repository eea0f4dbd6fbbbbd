package progress

import (
	"maps"
	"slices"
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Delayed is the failed attempt after which only its delay keeps the next one from starting, and when that delay ends.
// With contract.AnnRetry on its pod the next attempt starts at once. ok is false if the next attempt waits for
// something else, if none is needed, or if one runs.
func Delayed(s *observed.Claim) (failed observed.Attempt, until time.Time, ok bool) {
	until = reconcile.Decide(s).NextAttempt
	if until.IsZero() {
		return failed, until, false
	}

	for _, op := range []contract.Operation{contract.Expand, contract.Delete, contract.Provision, contract.Snapshot,
		contract.DeleteSnapshot, contract.Attach, contract.Detach} {
		latest, known := s.Latest(op)
		if !known {
			continue
		}

		asked := *s
		asked.Attempts, asked.Retained = withRetry(s.Attempts, latest), withRetry(s.Retained, latest)
		if _, due := reconcile.Find[reconcile.CreatePod](reconcile.Decide(&asked)); due {
			return latest, until, true
		}
	}

	return failed, until, false
}

// withRetry is the list with the annotation on the pod of one attempt.
func withRetry(list []observed.Attempt, of observed.Attempt) []observed.Attempt {
	list = slices.Clone(list)
	for i, a := range list {
		if a.Pod.UID != of.Pod.UID {
			continue
		}

		pod := *a.Pod
		pod.Annotations = map[string]string{}
		maps.Copy(pod.Annotations, a.Pod.Annotations)
		pod.Annotations[contract.AnnRetry] = "true"
		list[i].Pod = &pod
	}

	return list
}

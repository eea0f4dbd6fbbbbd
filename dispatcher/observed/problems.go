package observed

import (
	"fmt"
	"regexp"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// StoppedBy says, for DeletionsStopped, that the ConfigMap stops all deletions, with the reason that it gives. Without
// one nothing stops them.
func StoppedBy(cm *corev1.ConfigMap) string {
	if cm == nil {
		return ""
	}

	why := fmt.Sprintf("ConfigMap %s/%s stops all deletions", cm.Namespace, cm.Name)
	if reason := podspec.Clean(cm.Data["reason"]); reason != "" {
		why += ": " + reason
	}

	return why
}

// WaitingCondition is the condition by which a claim's status says why the claim waits, if it has one.
func WaitingCondition(claim *corev1.PersistentVolumeClaim) (c corev1.PersistentVolumeClaimCondition, ok bool) {
	for _, c := range claim.Status.Conditions {
		if c.Type == contract.ConditionWaiting && c.Status == corev1.ConditionTrue {
			return c, true
		}
	}

	return c, false
}

// startProblems are the reasons of events that say why a pod does not start.
var startProblems = map[string]bool{"FailedMount": true, "FailedAttachVolume": true, "FailedMapVolume": true,
	"FailedCreatePodSandBox": true}

// behind matches what a kubelet says that has not read a new pod's Secrets or ConfigMaps yet, and one whose API server
// does not know yet that the pod is on the node and may have its token. Busy machines cause both. They say nothing
// about the pod, and the kubelet tries again within a second.
var behind = regexp.MustCompile(`failed to sync (secret|configmap) cache: |` +
	`: no relationship found between node '|` +
	`node requested token bound to a pod scheduled on a different node`)

// IsStartProblem reports whether the event, of the kubelet, says why a pod does not start. A missing Secret or claim
// which the pod mounts shows nowhere in the pod's status.
func IsStartProblem(e *corev1.Event) bool {
	return startProblems[e.Reason] && !behind.MatchString(e.Message)
}

// PodProblem is what the last of a pod's events says of its start, empty where none does.
func PodProblem(events []*corev1.Event) string {
	var last *corev1.Event
	for _, e := range events {
		if IsStartProblem(e) && (last == nil || last.LastTimestamp.Before(&e.LastTimestamp)) {
			last = e
		}
	}

	if last == nil {
		return ""
	}

	return podspec.Clean(last.Reason + ": " + last.Message)
}

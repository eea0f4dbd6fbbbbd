package observed

import (
	"fmt"
	"regexp"
	"strings"

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
	sandboxProblem: true}

const sandboxProblem = "FailedCreatePodSandBox"

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

// timedOut matches what a kubelet says after its other events, which have the cause.
var timedOut = regexp.MustCompile(`^Unable to attach or mount volumes: `)

// mountCommand matches the command that a kubelet quotes before the command's answer.
var mountCommand = regexp.MustCompile(`(?s)mount failed: exit status \d+\s*Mounting command:.*?\sOutput: `)

// PodProblem is what the last of a pod's events with a cause says of its start, empty where none does.
func PodProblem(events []*corev1.Event) string {
	var last *corev1.Event
	for _, e := range events {
		if IsStartProblem(e) && (last == nil || tellsMore(e, last)) {
			last = e
		}
	}

	if last == nil {
		return ""
	}

	return podspec.Clean(last.Reason + ": " + mountCommand.ReplaceAllString(last.Message, ""))
}

// tellsMore reports whether an event says more of a pod's start than another one: by its cause, then by its time.
func tellsMore(e, other *corev1.Event) bool {
	caused, otherCaused := !timedOut.MatchString(e.Message), !timedOut.MatchString(other.Message)
	if caused != otherCaused {
		return caused
	}

	return other.LastTimestamp.Before(&e.LastTimestamp)
}

// missing matches what a kubelet says of an object that a pod mounts and that does not exist, or lacks a key.
var missing = regexp.MustCompile(`not found|references non-existent`)

// problemReason is the reason for what PodProblem says: storage that a node cannot mount is not what is missing.
func problemReason(problem string) podspec.Reason {
	mounting := !strings.HasPrefix(problem, sandboxProblem)
	if mounting && !missing.MatchString(problem) {
		return podspec.ReasonMount
	}

	return podspec.ReasonPodConfig
}

package podspec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// Phase is how far an attempt has come.
type Phase string

// The phases. Succeeded and Failed are final: no container of the pod runs or ever will.
const (
	// Starting: the container has not been seen to run.
	Starting Phase = "Starting"
	// Running: the container runs, or was last seen running.
	Running Phase = "Running"
	// Succeeded: exit code 0. Whether the volume exists is another question.
	Succeeded Phase = "Succeeded"
	// Failed: anything else.
	Failed Phase = "Failed"
)

// Reason names the cause of a failure or of a slow start; it is the reason of the event that reports it.
type Reason string

// The reasons that a pod alone can tell. docs/events.md explains each.
const (
	ReasonNone          Reason = ""
	ReasonFailed        Reason = "ProvisionerFailed"
	ReasonRefused       Reason = "ProvisionerRefused"
	ReasonNotHere       Reason = "ProvisionerNotHere"
	ReasonTryAgain      Reason = "ProvisionerBusy"
	ReasonOutOfMemory   Reason = "ProvisionerOutOfMemory"
	ReasonDeadline      Reason = "ProvisionerDeadlineExceeded"
	ReasonEvicted       Reason = "ProvisionerEvicted"
	ReasonImagePull     Reason = "ProvisionerImagePullFailed"
	ReasonPodConfig     Reason = "ProvisionerPodConfigError"
	ReasonStart         Reason = "ProvisionerStartFailed"
	ReasonUnschedulable Reason = "ProvisionerUnschedulable"
)

// Outcome is what a pod says of its attempt.
type Outcome struct {
	Phase Phase
	// Reason is why it failed, or while it is starting what holds it up; empty where nothing is wrong.
	Reason Reason
	// Message is one clean line for users, empty where Reason is.
	Message string
	// OwnWords reports whether Message is the container's own.
	OwnWords bool
	// ExitCode is the container's, -1 where it has none.
	ExitCode int32
	// MayHaveRun is false only where it is certain that the container never started, so that nothing can have been made.
	MayHaveRun bool
	// Node is where the pod was put, empty before.
	Node string
	// Location is where the container said that it works; see contract.LocationLine. Empty where it said nothing.
	Location string
	// Finished is when the attempt ended, by the clock of its node as far as is known; zero before.
	Finished time.Time
}

// Final reports whether no container of the pod runs or ever will.
func (o Outcome) Final() bool { return o.Phase == Succeeded || o.Phase == Failed }

// MayHaveMade reports whether storage may exist because of this attempt. A container that refused or sent the claim elsewhere
// promised that it made nothing.
func (o Outcome) MayHaveMade() bool {
	return o.MayHaveRun && o.Reason != ReasonRefused && o.Reason != ReasonNotHere
}

// Unclear reports whether the container was ended from outside, or asks for more time: what it was about may have been done.
func (o Outcome) Unclear() bool {
	return o.Killed() || o.Reason == ReasonTryAgain
}

// Killed reports whether the container was ended from outside, or that its node does not know how it ended. What it had asked a storage system for may still be under way.
func (o Outcome) Killed() bool {
	const signals = 128 // a shell's exit code for a signal is more than this
	return o.Phase == Failed && o.MayHaveRun &&
		(o.ExitCode > signals || o.ExitCode < 0 || o.Reason == ReasonDeadline || o.Reason == ReasonEvicted || o.Reason == ReasonOutOfMemory)
}

// Disrupted reports whether the attempt failed by no fault of its own.
func (o Outcome) Disrupted() bool { return o.Reason == ReasonEvicted }

// Handled reports whether the pod's outcome has been acted on: it is kept for its log, or for its name.
func Handled(pod *corev1.Pod) bool {
	return !slices.Contains(pod.Finalizers, contract.PodFinalizer) || pod.Annotations[contract.AnnSettled] != ""
}

// OutcomeOf judges a pod. The order of precedence is: the pod's phase, what ended it from outside, what ended the
// container, what the container said.
func OutcomeOf(pod *corev1.Pod) Outcome {
	o := Outcome{ExitCode: -1, Node: pod.Spec.NodeName, MayHaveRun: mayHaveRun(pod)}
	if t := terminatedContainer(pod); t != nil {
		o.Location, _ = contract.CutLocation(t.Message)
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		o.Phase, o.ExitCode, o.Finished = Succeeded, 0, finishedAt(pod)
	case pod.Status.Phase == corev1.PodFailed:
		o.Phase, o.Finished = Failed, finishedAt(pod)
		o.Reason, o.Message, o.OwnWords, o.ExitCode = failure(pod)
	case pod.DeletionTimestamp != nil && pod.Spec.NodeName == "":
		// The API server binds no pod that is being deleted, so that this one can never start.
		o.Phase, o.Finished = Failed, pod.DeletionTimestamp.Time
		o.Reason, o.Message = ReasonEvicted, "the pod was deleted before it was given a node"
	case pod.Status.Phase == corev1.PodRunning:
		o.Phase = Running
	default:
		o.Phase = Starting
		o.Reason, o.Message = startTrouble(pod)
	}
	return o
}

// mayHaveRun trusts a container's status only where the kubelet had the last word: on a lost node the status that says
// "waiting" may be older than the container. A kubelet that rejects a pod drops all statuses of containers. It may do so after a
// restart, when the container has run before. A container that ran, and that a kubelet misses since its node has lost its disk, counts
// as restarted, whatever else is said of it.
func mayHaveRun(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.RestartCount > 0 || status.State.Running != nil || status.LastTerminationState.Terminated != nil || status.State.Terminated != nil && !neverCreated(status) {
			return true
		}
	}
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	known := len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) > 0
	return !ended || !known || disruption(pod) != ""
}

// neverCreated recognizes how the kubelet ends a pod whose container it never had, because its image could not be pulled
// for instance: as terminated with an unknown status, but without the identities that a container gets when it is made.
func neverCreated(status corev1.ContainerStatus) bool {
	t := status.State.Terminated
	return t.Reason == "ContainerStatusUnknown" && t.StartedAt.IsZero() && status.ContainerID == "" && status.ImageID == "" &&
		!strings.Contains(t.Message, "used to be Running")
}

func finishedAt(pod *corev1.Pod) time.Time {
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; t != nil && !t.FinishedAt.IsZero() {
			return t.FinishedAt.Time
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.ContainersReady || c.Type == corev1.DisruptionTarget {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// fromOutside are the pod reasons by which the kubelet says that the node, not the container, ended the attempt.
var fromOutside = map[string]bool{
	"Evicted": true, "Preempting": true, "NodeShutdown": true, "Terminated": true, "NodeLost": true, "Shutdown": true,
	"NodeAffinity": true, "UnexpectedAdmissionError": true, "OutOfcpu": true, "OutOfmemory": true, "OutOfpods": true,
	"OutOfephemeral-storage": true,
}

func disruption(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason + ": " + c.Message
		}
	}
	return ""
}

func failure(pod *corev1.Pod) (reason Reason, message string, own bool, exit int32) {
	exit = -1
	terminated := terminatedContainer(pod)
	if terminated != nil {
		exit = terminated.ExitCode
	}
	switch {
	case pod.Status.Reason == "DeadlineExceeded":
		message := "the pod ran into its deadline"
		if pod.Spec.ActiveDeadlineSeconds != nil {
			message = fmt.Sprintf("the pod ran into its deadline of %ds", *pod.Spec.ActiveDeadlineSeconds)
		}
		if said := said(terminated); said != "" {
			message += ", saying: " + said
		}
		return ReasonDeadline, message, false, exit
	case fromOutside[pod.Status.Reason]:
		return ReasonEvicted, "the node ended the pod: " + Clean(pod.Status.Reason+": "+pod.Status.Message), false, exit
	case disruption(pod) != "":
		return ReasonEvicted, "the pod was disrupted: " + Clean(disruption(pod)), false, exit
	case terminated == nil && mayHaveRun(pod):
		return ReasonFailed, "its node does not know how the container ended", false, exit
	case failedInit(pod) != nil && !mayHaveRun(pod):
		return ReasonStart, howInitFailed(failedInit(pod)), false, exit
	case terminated == nil || !mayHaveRun(pod):
		return ReasonStart, strings.TrimSuffix("the pod failed before its container started: "+Clean(pod.Status.Reason+" "+pod.Status.Message), ": "), false, exit
	case terminated.Reason == "OOMKilled":
		return ReasonOutOfMemory, "the container was killed for want of memory; raise the ConfigMap's resources", false, exit
	}
	reason = ofExitCode(terminated.ExitCode)
	if said := said(terminated); said != "" {
		return reason, said, true, exit
	}
	if terminated.Reason == "StartError" || terminated.Reason == "ContainerCannotRun" {
		return ReasonStart, "the container could not be started: " + Clean(terminated.Message), false, exit
	}
	return reason, fmt.Sprintf("the container exited with code %d%s and left no message", terminated.ExitCode, inWords(terminated)), false, exit
}

// meanings are what exit codes say without a message: those of the contract, and those of shells. A shell's code for a signal, and the
// container runtime's, is 128 more than the signal.
var meanings = map[int32]string{
	contract.ExitRefused:  "it refuses the request",
	contract.ExitNotHere:  "it cannot work on this node",
	contract.ExitTryAgain: "it asks for another attempt",
	126:                   "a program could not be executed",
	127:                   "a program was not found",
	128 + 6:               "it was ended by signal SIGABRT",
	128 + 9:               "it was ended by signal SIGKILL",
	128 + 11:              "it was ended by signal SIGSEGV",
	128 + 13:              "it was ended by signal SIGPIPE",
	128 + 15:              "it was ended by signal SIGTERM",
}

func inWords(t *corev1.ContainerStateTerminated) string {
	meaning := meanings[t.ExitCode]
	if t.Reason == "ContainerStatusUnknown" {
		meaning = "its node does not know how it ended" // the code is the kubelet's guess
	}
	if meaning == "" {
		return ""
	}
	return " (" + meaning + ")"
}

func ofExitCode(code int32) Reason {
	switch code {
	case contract.ExitRefused:
		return ReasonRefused
	case contract.ExitNotHere:
		return ReasonNotHere
	case contract.ExitTryAgain:
		return ReasonTryAgain
	}
	return ReasonFailed
}

// failedInit is the init container that failed, or nil. The provisioner never starts after it.
func failedInit(pod *corev1.Pod) *corev1.ContainerStatus {
	for i, status := range pod.Status.InitContainerStatuses {
		if t := status.State.Terminated; t != nil && t.ExitCode != 0 {
			return &pod.Status.InitContainerStatuses[i]
		}
	}
	return nil
}

// howInitFailed is for users: nothing of it is their provisioner's.
func howInitFailed(status *corev1.ContainerStatus) string {
	t, who := status.State.Terminated, "init container "+Clean(status.Name)
	switch said := said(t); {
	case t.Reason == "OOMKilled":
		return who + " was killed for want of memory"
	case said != "":
		return who + " failed: " + said
	case t.Message != "":
		return who + " could not be started: " + Clean(t.Message)
	}
	return fmt.Sprintf("%s exited with code %d%s and left no message", who, t.ExitCode, inWords(t))
}

// LogContainer is the container whose log says why the pod failed: the init container that failed, or else the provisioner's. explains is
// false where none of them ran, or what it said is in the outcome.
func LogContainer(pod *corev1.Pod, o Outcome) (name string, explains bool) {
	if init := failedInit(pod); init != nil && !o.MayHaveRun {
		return init.Name, o.Reason == ReasonStart && said(init.State.Terminated) == ""
	}
	return ContainerName, o.MayHaveRun && !o.OwnWords
}

// terminatedContainer prefers a failed init container.
func terminatedContainer(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if init := failedInit(pod); init != nil {
		return init.State.Terminated
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ContainerName && status.State.Terminated != nil {
			return status.State.Terminated
		}
	}
	return nil
}

// said is the container's own message. The kubelet writes some of its own into the same field when a container cannot
// be started, which it marks by the reason.
func said(t *corev1.ContainerStateTerminated) string {
	if t == nil || t.Reason == "StartError" || t.Reason == "ContainerCannotRun" || t.Reason == "ContainerStatusUnknown" {
		return ""
	}
	_, message := contract.CutLocation(t.Message)
	return Clean(message)
}

// startTrouble says what keeps a pod from starting, in the order in which it has to be mended.
func startTrouble(pod *corev1.Pod) (Reason, string) {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return ReasonUnschedulable, "no node takes the pod: " + Clean(c.Message)
		}
	}
	for _, status := range append(append([]corev1.ContainerStatus{}, pod.Status.InitContainerStatuses...), pod.Status.ContainerStatuses...) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed":
			return ReasonImagePull, fmt.Sprintf("image %s cannot be had: %s", status.Image, Clean(waiting.Reason+": "+waiting.Message))
		case "CreateContainerConfigError":
			return ReasonPodConfig, "the container's configuration is incomplete: " + Clean(waiting.Message)
		case "CreateContainerError", "RunContainerError":
			return ReasonStart, "the container could not be started: " + Clean(waiting.Message)
		}
	}
	return ReasonNone, ""
}

package podspec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Phase is the phase of an attempt.
type Phase string

// The phases. Succeeded and Failed are final: no container of the pod runs or ever will.
const (
	// Starting says that the container has not been seen to run.
	Starting Phase = "Starting"
	// Running says that the container runs, or that it ran when the kubelet last reported.
	Running Phase = "Running"
	// Succeeded says that the container exited with code 0. It does not say that the volume exists.
	Succeeded Phase = "Succeeded"
	// Failed says that the pod ended in another way.
	Failed Phase = "Failed"
)

// Reason is the cause of a failure or of a slow start. It is the reason of the event that reports it.
type Reason string

// The reasons that are read from a pod. docs/events.md explains each.
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
	ReasonMount         Reason = "ProvisionerMountFailed"
	ReasonStart         Reason = "ProvisionerStartFailed"
	ReasonUnschedulable Reason = "ProvisionerUnschedulable"
)

// Outcome is the outcome of an attempt, as its pod's status shows it.
type Outcome struct {
	Phase Phase
	// Reason is why the attempt failed, or what delays its start. It is empty where nothing is wrong.
	Reason Reason
	// Message is one line of printable characters for users. It is empty where Reason is.
	Message string
	// OwnWords reports whether Message is the container's termination message.
	OwnWords bool
	// ExitCode is the container's, -1 where it has none.
	ExitCode int32
	// MayHaveRun reports whether the container may have run. It is false only where it is certain that the container
	// never started, so that nothing can have been made.
	MayHaveRun bool
	// Node is the pod's node, empty before it is scheduled.
	Node string
	// Location is the location that the container reported, empty where it reported none; see contract.LocationLine.
	Location string
	// Finished is when the attempt ended, by the clock of its node as far as that is known. It is zero before.
	Finished time.Time
}

// Final reports whether no container of the pod runs or ever will.
func (o Outcome) Final() bool { return o.Phase == Succeeded || o.Phase == Failed }

// MayHaveMade reports whether storage may exist because of this attempt. The exit codes contract.ExitRefused and
// contract.ExitNotHere promise that the container made nothing.
func (o Outcome) MayHaveMade() bool {
	return o.MayHaveRun && o.Reason != ReasonRefused && o.Reason != ReasonNotHere
}

// Unclear reports whether the operation may have been carried out although the attempt failed: the container was
// killed, or asks for another attempt.
func (o Outcome) Unclear() bool {
	return o.Killed() || o.Reason == ReasonTryAgain
}

// Killed reports whether something else than the container's program ended it, or its node does not know how it ended.
// A storage system may still carry out the container's last request.
func (o Outcome) Killed() bool {
	if o.Phase != Failed || !o.MayHaveRun {
		return false
	}

	return o.ExitCode > signals || o.ExitCode < 0 || slices.Contains(endedByOthers, o.Reason)
}

// signals is below a shell's exit codes for signals.
const signals = 128

// endedByOthers are the reasons of attempts that did not end by themselves.
var endedByOthers = []Reason{ReasonDeadline, ReasonEvicted, ReasonOutOfMemory}

// Handled reports whether the pod's outcome has been acted on. Such a pod is kept for its log or its name alone.
func Handled(pod *corev1.Pod) bool {
	return !slices.Contains(pod.Finalizers, contract.PodFinalizer) || pod.Annotations[contract.AnnSettled] != ""
}

// OutcomeOf reads the outcome from a pod's status. The order of precedence is: the pod's phase, what ended the pod,
// what ended the container, the container's message.
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
		// The API server binds no pod that is being deleted. So this pod can never start.
		o.Phase, o.Finished = Failed, pod.DeletionTimestamp.Time
		o.Reason, o.Message = ReasonEvicted, "the pod was deleted before it was given a node"
	case pod.Status.Phase == corev1.PodRunning:
		o.Phase = Running
	default:
		o.Phase = Starting
		o.Reason, o.Message = startProblem(pod)
	}

	return o
}

// mayHaveRun reports whether the container may have run. A status without a sign of a run proves nothing unless the
// kubelet ended the pod:
//   - On a lost node a status "waiting" may be older than the container.
//   - A kubelet that rejects a pod drops the statuses of its containers. It may do so after a restart, when the
//     container has run before.
//   - A kubelet whose node lost its disk does not find a container that ran. It counts it as restarted.
func mayHaveRun(pod *corev1.Pod) bool {
	if pod.Spec.NodeName == "" {
		return false
	}

	if slices.ContainsFunc(pod.Status.ContainerStatuses, hasRun) {
		return true
	}

	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	known := len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) > 0

	return !ended || !known || disruption(pod) != ""
}

// hasRun reports whether a status shows that the container runs, or ran once.
func hasRun(status corev1.ContainerStatus) bool {
	ranBefore := status.RestartCount > 0 || status.LastTerminationState.Terminated != nil
	ended := status.State.Terminated != nil && !neverCreated(status) && !neverStarted(status.State.Terminated)

	return status.State.Running != nil || ranBefore || ended
}

// neverCreated reports whether the kubelet ended a container that it never created, for instance since the image could
// not be pulled. The status is then "terminated" with an unknown status, and without the IDs that a container gets when
// it is created.
func neverCreated(status corev1.ContainerStatus) bool {
	t := status.State.Terminated
	unknown := t.Reason == "ContainerStatusUnknown" && !strings.Contains(t.Message, "used to be Running")
	withoutID := status.ContainerID == "" && status.ImageID == ""

	return unknown && withoutID && t.StartedAt.IsZero()
}

// neverStarted reports whether the runtime could not make the container's process, for instance since the image lacks
// the program. A runtime starts the process only after it has made it.
func neverStarted(t *corev1.ContainerStateTerminated) bool {
	notMade := strings.Contains(t.Message, "failed to create containerd task") ||
		strings.Contains(t.Message, "runc create failed")

	return t.Reason == startError && t.StartedAt.Unix() <= 0 && notMade
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

// disruptionReasons are the pod reasons by which the kubelet says that the node, not the container, ended the attempt.
var disruptionReasons = map[string]bool{
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
		return ReasonDeadline, deadlineMessage(pod, terminated), false, exit
	case disruptionReasons[pod.Status.Reason]:
		return ReasonEvicted, "the node ended the pod: " + Clean(pod.Status.Reason+": "+pod.Status.Message), false, exit
	case disruption(pod) != "":
		return ReasonEvicted, "the pod was disrupted: " + Clean(disruption(pod)), false, exit
	case terminated == nil && mayHaveRun(pod):
		return ReasonFailed, "its node does not know how the container ended", false, exit
	case failedInit(pod) != nil && !mayHaveRun(pod):
		return ReasonStart, initFailureMessage(failedInit(pod)), false, exit
	case terminated == nil || !mayHaveRun(pod) && terminated.Reason != startError:
		message := "the pod failed before its container started: " + Clean(pod.Status.Reason+" "+pod.Status.Message)
		return ReasonStart, strings.TrimSuffix(message, ": "), false, exit
	case terminated.Reason == "OOMKilled":
		message := "the container was killed for want of memory; raise the ConfigMap's resources"
		return ReasonOutOfMemory, message, false, exit
	case deletedWhileRunning(pod, terminated):
		return ReasonEvicted, fmt.Sprintf("somebody deleted the pod while it ran, or drained its node: the container "+
			"exited with code %d%s", exit, exitMeaning(terminated)), false, exit
	}

	reason, message, own = exitFailure(terminated)

	return reason, message, own, exit
}

func deadlineMessage(pod *corev1.Pod, t *corev1.ContainerStateTerminated) string {
	message := "the pod ran into its deadline"
	if pod.Spec.ActiveDeadlineSeconds != nil {
		message = fmt.Sprintf("the pod ran into its deadline of %ds", *pod.Spec.ActiveDeadlineSeconds)
	}

	if own := messageOf(t); own != "" {
		message += ", saying: " + own
	}

	return message
}

// deletedWhileRunning reports whether a signal ended the container of a pod that somebody deleted.
func deletedWhileRunning(pod *corev1.Pod, t *corev1.ContainerStateTerminated) bool {
	return pod.DeletionTimestamp != nil && t.ExitCode > signals && messageOf(t) == ""
}

// exitFailure is how the container failed that nothing else ended.
func exitFailure(t *corev1.ContainerStateTerminated) (reason Reason, message string, own bool) {
	reason = reasonForExitCode(t.ExitCode)

	message = messageOf(t)
	if message != "" {
		return reason, message, true
	}

	if t.Reason == startError || t.Reason == "ContainerCannotRun" {
		return ReasonStart, "the container could not be started: " + Clean(t.Message), false
	}

	return reason, fmt.Sprintf("the container exited with code %d%s and left no message",
		t.ExitCode, exitMeaning(t)), false
}

// exitCodeMeanings explain the exit codes of the contract and of shells, for containers without a message. For a
// signal, shells and container runtimes add 128.
var exitCodeMeanings = map[int32]string{
	contract.ExitRefused:  "it refuses the request",
	contract.ExitNotHere:  "it cannot work on this node",
	contract.ExitTryAgain: "it asks for another attempt",
	126:                   "a program could not be executed",
	127:                   "a program was not found, which may be that of the script's first line",
	128 + 6:               "it was ended by signal SIGABRT",
	128 + 9:               "it was ended by signal SIGKILL",
	128 + 11:              "it was ended by signal SIGSEGV",
	128 + 13:              "it was ended by signal SIGPIPE",
	128 + 15:              "it was ended by signal SIGTERM",
}

func exitMeaning(t *corev1.ContainerStateTerminated) string {
	meaning := exitCodeMeanings[t.ExitCode]
	if t.Reason == "ContainerStatusUnknown" {
		meaning = "its node does not know how it ended" // the code is the kubelet's guess
	}

	if meaning == "" {
		return ""
	}

	return " (" + meaning + ")"
}

func reasonForExitCode(code int32) Reason {
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

// initFailureMessage is for users. It names the init container, since the failure is not the provisioner's.
func initFailureMessage(status *corev1.ContainerStatus) string {
	t, who := status.State.Terminated, "init container "+Clean(status.Name)
	switch message := messageOf(t); {
	case t.Reason == "OOMKilled":
		return who + " was killed for want of memory"
	case message != "":
		return who + " failed: " + message
	case t.Message != "":
		return who + " could not be started: " + Clean(t.Message)
	}

	return fmt.Sprintf("%s exited with code %d%s and left no message", who, t.ExitCode, exitMeaning(t))
}

// LogContainer is the container whose log says why the pod failed: the init container that failed, or else the
// provisioner. explains is false where neither ran, or where the outcome has the container's message.
func LogContainer(pod *corev1.Pod, o Outcome) (name string, explains bool) {
	if init := failedInit(pod); init != nil && !o.MayHaveRun {
		return init.Name, o.Reason == ReasonStart && messageOf(init.State.Terminated) == ""
	}

	return ContainerName, o.MayHaveRun && !o.OwnWords
}

// terminatedContainer is the end of the init container that failed, or else of the provisioner; nil where neither has
// ended.
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

// messageOf is the container's termination message, without its location. Where a container cannot be started, the
// kubelet writes its own message into the same field, and marks it by the reason.
func messageOf(t *corev1.ContainerStateTerminated) string {
	if t == nil || slices.Contains(kubeletsWords, t.Reason) {
		return ""
	}

	_, message := contract.CutLocation(t.Message)

	return Clean(message)
}

// startError is the reason of a container that the runtime could not start.
const startError = "StartError"

// kubeletsWords are the reasons with which the message is the kubelet's.
var kubeletsWords = []string{startError, "ContainerCannotRun", "ContainerStatusUnknown"}

// Unschedulable is what the scheduler said last of a pod that no node takes, or empty. A pod that is deleted before it
// has a node keeps that.
func Unschedulable(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			if nodes := RequiredNodes(pod); len(nodes) > 0 {
				return fmt.Sprintf("the pod has to run on node %s, which does not take it: %s",
					strings.Join(nodes, ", "), Clean(c.Message))
			}

			return "no node takes the pod: " + Clean(c.Message)
		}
	}

	return ""
}

// NotReady reports whether Kubernetes took the condition Ready off a pod that runs by its last status, since its node
// does not answer. A kubelet that does so, for a container that a service mesh added for instance, gives a reason.
func NotReady(pod *corev1.Pod) bool {
	runs := slices.ContainsFunc(pod.Status.ContainerStatuses, func(status corev1.ContainerStatus) bool {
		return status.State.Running != nil
	})

	return runs && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && c.Reason == ""
	})
}

// startProblem says what keeps a pod from starting: the problem that has to be solved first.
func startProblem(pod *corev1.Pod) (Reason, string) {
	if why := Unschedulable(pod); why != "" {
		return ReasonUnschedulable, why
	}

	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}

		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError",
			"RegistryUnavailable", "SignatureValidationFailed":
			return ReasonImagePull, fmt.Sprintf("image %s cannot be had: %s",
				status.Image, Clean(waiting.Reason+": "+waiting.Message))
		case "CreateContainerConfigError":
			return ReasonPodConfig, "the container's configuration is incomplete: " + Clean(waiting.Message)
		case "CreateContainerError", "RunContainerError":
			if noImageMounted(waiting.Message) {
				return ReasonStart, fmt.Sprintf("the container could not be started: %s: %s",
					noImageVolumes, Clean(waiting.Message))
			}

			return ReasonStart, "the container could not be started: " + Clean(waiting.Message)
		}
	}

	return ReasonNone, ""
}

// noImageMounted reports whether a container cannot be created since the runtime takes the volume of an image for a
// directory of the node without a name, as containerd before 2.1 and cri-dockerd do.
func noImageMounted(message string) bool {
	return strings.Contains(message, `mkdir ""`) || strings.Contains(message, "':"+contract.BinDir)
}

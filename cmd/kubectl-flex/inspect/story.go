package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/progress"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Story is the history of a claim.
type Story struct {
	State State `json:"state"`
	// Steps are what happened, oldest first.
	Steps []Step `json:"steps"`
	// Class lists the problems of the claim's class that the state does not have already.
	Class []Cause `json:"class,omitempty"`
	// RetryWith is the command for an immediate retry. It is empty where a retry would have no effect.
	RetryWith string   `json:"retryWith,omitempty"`
	Unread    []Unread `json:"unread,omitempty"`
}

// Step is one step of a story.
type Step struct {
	At   time.Time `json:"at,omitzero"`
	What string    `json:"what"`
	// Log are the last lines of the attempt's log.
	Log []string `json:"log,omitempty"`
	// Count is how often it happened, where that is more than once.
	Count int32 `json:"count,omitempty"`
}

// StoryOf is the story of the claim with a UID.
func (o *Objects) StoryOf(uid string) Story {
	story := Story{State: o.StateOf(uid), Unread: o.Unread}
	s, uid := o.observe(story.State.UID), story.State.UID
	add := func(at time.Time, format string, args ...any) {
		story.Steps = append(story.Steps, Step{At: at, What: podspec.EventMessage(fmt.Sprintf(format, args...))})
	}
	claim := o.claim(uid)
	if claim != nil {
		size := observed.Requested(claim)
		add(claim.CreationTimestamp.Time, "claim %s/%s asks for %s of class %s", claim.Namespace, claim.Name, size.String(), quoted(podspec.ClassOfClaim(claim)))
		if to := requestedProvisioner(claim); to != "" {
			on := ""
			if node := claim.Annotations[observed.AnnSelectedNode]; node != "" {
				on = ", for node " + node
			}
			add(claim.CreationTimestamp.Time, "Kubernetes asks provisioner %s for a volume%s", to, on)
		}
		if claim.DeletionTimestamp != nil {
			add(claim.DeletionTimestamp.Time, "the claim is being deleted")
		}
	}
	reported := map[string]bool{}
	attempts := s.All()
	slices.SortFunc(attempts, func(a, b observed.Attempt) int { return a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time) })
	for _, a := range attempts {
		story.Steps = append(story.Steps, o.attemptSteps(s, a)...)
		reason := a.Outcome.Reason
		if madeNoVolume(s, a) {
			reason = events.ReasonNoVolume
		}
		reported[a.Pod.Name+"/"+string(reason)] = true
	}
	if s.Snapshot != nil {
		o.snapshotSteps(s, add)
	} else {
		o.volumeSteps(s, add)
	}
	for _, e := range o.eventsAbout(s, claim) {
		if step, ok := eventStep(e, reported); ok {
			story.Steps = append(story.Steps, step)
		}
	}
	slices.SortStableFunc(story.Steps, func(a, b Step) int { return a.At.Compare(b.At) })
	story.State.Message += o.endOfLog(attempts, story.State.Message)
	story.Class = o.problemsOfClass(s.ClassName, story.State)
	if o.complete() {
		if _, _, ok := progress.Delayed(s); ok && story.State.NotOurs == "" {
			story.RetryWith = "kubectl flex retry " + o.nameOf(story.State)
		}
	}
	return story
}

// endOfLog is the last line that a failed pod printed, for a cause that names the pod and says that it left no message;
// else it is empty.
func (o *Objects) endOfLog(attempts []observed.Attempt, message string) string {
	const says = "; its log ends with: "
	if !strings.Contains(message, "left no message") || strings.Contains(message, says) {
		return ""
	}

	for _, a := range attempts {
		named := strings.Contains(message, fmt.Sprintf("(pod %s/%s)", a.Pod.Namespace, a.Pod.Name))
		printed := lines(o.Logs[a.Pod.UID])
		if named && len(printed) > 0 {
			return says + printed[len(printed)-1]
		}
	}

	return ""
}

// problemsOfClass lists the problems of the claim's class that its state does not have already. A class of another provisioner has none,
// unless there is a ConfigMap for it.
func (o *Objects) problemsOfClass(class string, s State) []Cause {
	absent := s.NotOurs != "" || s.Reason == reasonNoClass
	if !o.complete() || class == "" || absent && !o.resolve(class).Present {
		return nil
	}
	problems, _ := o.classProblems(class)
	return slices.DeleteFunc(problems, func(c Cause) bool { return c.Reason == s.Reason })
}

func quoted(name string) string {
	return fmt.Sprintf("%q", podspec.Clip(podspec.OneLine(name), podspec.MaxEvent/4))
}

// attemptSteps are the start of an attempt, and its end where it has one.
func (o *Objects) attemptSteps(s *observed.Claim, a observed.Attempt) []Step {
	what := fmt.Sprintf("%s, attempt %d: pod %s", a.Op, a.Number, a.Pod.Name)
	if a.Op == contract.Delete && a.Pod.Annotations[contract.AnnVolumeUID] == "" {
		what += " removes what earlier attempts may have made"
	}
	if a.Outcome.Node != "" {
		what += " on node " + a.Outcome.Node
	}
	steps := []Step{{At: a.Pod.CreationTimestamp.Time, What: what}}
	var end string
	switch a.Outcome.Phase {
	case podspec.Succeeded:
		end = "exit code 0"
		switch {
		case madeNoVolume(s, a):
			end += ", " + string(events.ReasonNoVolume)
		case undone(s, a):
			end += ", " + string(events.ReasonVolumeMismatch) + ": its volume is removed"
		}
	case podspec.Failed:
		end = "failed"
		if a.Outcome.ExitCode >= 0 {
			end = fmt.Sprintf("exit code %d", a.Outcome.ExitCode)
		}
	case podspec.Starting, podspec.Running:
		end = "is " + strings.ToLower(string(a.Outcome.Phase))
		if a.Outcome.Reason == podspec.ReasonNone {
			steps[0].What += ", " + end + endsBy(s, a)
			return steps
		}
	}
	step := Step{At: o.Now, What: fmt.Sprintf("%s, attempt %d: %s", a.Op, a.Number, end)}
	if a.Outcome.Final() {
		step.At = s.Ended(a)
		step.Log = lines(o.Logs[a.Pod.UID])
	}
	if a.Outcome.Reason != podspec.ReasonNone {
		step.What += ", " + string(a.Outcome.Reason) + ": " + a.Outcome.Message
	}
	if a.Gone {
		step.What += "; the pod and its log are gone, as somebody deleted the pod or drained its node, and its record stays: controllerrevision " + a.Pod.Name
	}
	if a.Pod.Annotations[contract.AnnRetry] == "true" {
		step.What += "; an administrator asked for the next attempt"
	}
	return append(steps, step)
}

// madeNoVolume reports whether the attempt succeeded although there is no volume.
func madeNoVolume(s *observed.Claim, a observed.Attempt) bool {
	return a.Op == contract.Provision && a.Outcome.Phase == podspec.Succeeded && s.Volume == nil && !undone(s, a)
}

// undone reports whether a delete was created for the volume of the attempt, since that did not fit the claim.
func undone(s *observed.Claim, a observed.Attempt) bool {
	return slices.ContainsFunc(s.All(), func(d observed.Attempt) bool {
		return d.Op == contract.Delete && d.Pod.Annotations[contract.AnnUndo] != "" && d.Undoes(a)
	})
}

// lines are the last lines of a log, each of printable characters.
func lines(log string) []string {
	var list []string
	for line := range strings.Lines(log) {
		if line = podspec.Clip(podspec.OneLine(line), maxLine); line != "" {
			list = append(list, line)
		}
	}
	return list[max(0, len(list)-maxLines):]
}

// Limits on what is shown of a log: the number of lines, and the bytes of a line.
const maxLines, maxLine = 10, 200

func (o *Objects) volumeSteps(s *observed.Claim, add func(time.Time, string, ...any)) {
	v := s.Volume
	if v == nil {
		return
	}
	size := observed.Capacity(v)
	add(v.CreationTimestamp.Time, "volume %s exists, %s", v.Name, size.String())
	if to := observed.GivenTo(v); to != nil {
		add(v.CreationTimestamp.Time, "the volume was made for the claim with UID %s, and was given to claim %s/%s", s.UID, to.Namespace, to.Name)
	}
	if podspec.Restored(v) {
		add(v.CreationTimestamp.Time, "the volume was restored from a backup")
	}
	changed := v.CreationTimestamp.Time
	if t := v.Status.LastPhaseTransitionTime; t != nil {
		changed = t.Time
	}
	switch {
	case s.Holder() != nil && podspec.Bound(s.Holder(), v):
		add(changed, "Kubernetes has bound claim and volume")
	case v.Status.Phase == corev1.VolumeReleased:
		add(changed, "the claim is gone, and the volume is Released with reclaim policy %s", v.Spec.PersistentVolumeReclaimPolicy)
	}
	if v.DeletionTimestamp != nil {
		add(v.DeletionTimestamp.Time, "the volume is being deleted")
	}
}

// ignoredEvents are reasons of Kubernetes' events that repeat other steps of a story.
var ignoredEvents = []string{"ExternalProvisioning", "ExternalExpanding", "Scheduled", "Pulling", "Pulled", "Created", "Started", "Killing", "Provisioning", "MissingClusterDNS"}

// eventStep is an event as a step. ok is false if another step says the same. reported has the pods and reasons of attempts.
func eventStep(e *corev1.Event, reported map[string]bool) (step Step, ok bool) {
	if slices.Contains(ignoredEvents, e.Reason) {
		return Step{}, false
	}
	if fromDispatcher(e) {
		for key := range reported {
			pod, reason, _ := strings.Cut(key, "/")
			if e.Reason == reason && strings.Contains(e.Message, pod) {
				return Step{}, false
			}
		}
	}
	step = Step{At: lastSeen(e), What: fmt.Sprintf("%s, %s: %s", origin(e), podspec.Clean(e.Reason), podspec.EventMessage(e.Message))}
	if e.Count > 1 {
		step.Count = e.Count
	}
	return step, true
}

// origin names the source of an event, as far as that is known.
func origin(e *corev1.Event) string {
	switch {
	case fromDispatcher(e):
		return "event"
	case namesDispatcher(e):
		return "event that is not the dispatcher's"
	}
	return "event of " + podspec.Clip(podspec.OneLine(cmp.Or(e.Source.Component, e.ReportingController, "somebody")), maxLine)
}

// WantsLogs lists the pods whose logs a story shows: pods that failed, the newest first, three at most.
func (o *Objects) WantsLogs(uid string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, a := range slices.Backward(o.observe(uid).All()) {
		if a.Outcome.Phase == podspec.Failed && a.Outcome.MayHaveRun && !a.Gone {
			pods = append(pods, a.Pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	return pods[:min(len(pods), 3)]
}

// Find is the UID of the claim that has the name, or had it and is not served yet, or whose volume or provisioner pod has it.
func (o *Objects) Find(namespace, name string) (uid string, err error) {
	if kind, short, ok := snapshotKinded(name); ok {
		return o.findSnapshot(namespace, kind, short)
	}
	if claim := o.ClaimNamed(namespace, name); claim != nil {
		return string(claim.UID), nil
	}
	if _, uid, _, ok := podspec.ParseName(name); ok {
		return uid, nil
	}
	if uid, ok := podspec.ClaimUIDOf(name); ok && (o.VolumeNamed(name) != nil || len(o.recordedOf(uid)) > 0 || o.claim(uid) != nil || len(o.eventsOnVolume(name)) > 0) {
		return o.holderOf(uid), nil
	}
	if v := o.VolumeNamed(name); v != nil && v.Spec.ClaimRef != nil && o.claim(string(v.Spec.ClaimRef.UID)) != nil {
		return string(v.Spec.ClaimRef.UID), nil
	} else if v != nil {
		return "", o.notOurs(v)
	}
	for _, uid := range o.pendingUIDs() {
		if s := o.StateOf(uid); s.Namespace == namespace && s.Claim == name {
			return uid, nil
		}
	}
	return "", NotFoundError{Namespace: namespace, Name: name, Meant: o.similarClaim(namespace, name), Unread: o.Unread}
}

// NotFoundError says that no claim, volume or provisioner pod has the name.
type NotFoundError struct {
	Namespace, Name string
	// Meant is the name of a claim that is probably meant, empty for none.
	Meant  string
	Unread []Unread
}

func (e NotFoundError) Error() string {
	text := fmt.Sprintf("namespace %s has no claim %s, and no volume or provisioner pod has that name", e.Namespace, quoted(e.Name))
	if e.Namespace == "" {
		text = fmt.Sprintf("there is no volume %s", quoted(e.Name))
	}
	if e.Meant != "" {
		text += ": did you mean " + e.Meant + "?"
	}
	for _, u := range e.Unread {
		if u.Kind == Volumes || u.Kind == Pods {
			text += fmt.Sprintf("; %s could not be read, which takes the right to %s", u.Kind, u.Right)
		}
	}
	return text
}

// NotOursError says that a volume is not this dispatcher's.
type NotOursError struct{ Text string }

func (e NotOursError) Error() string { return e.Text }

func (o *Objects) notOurs(v *corev1.PersistentVolume) error {
	name, by := quoted(v.Name), v.Annotations[contract.ProvisionedBy]
	m, _ := events.MeaningOf(events.ReasonNotOurs)
	switch by {
	case o.Dispatcher.Provisioner:
		return NotOursError{fmt.Sprintf("volume %s: %s: %s Do: %s", name, events.ReasonNotOurs, events.Plain(m.Means), events.Plain(m.Do))}
	case "":
		return NotOursError{fmt.Sprintf("volume %s was made by hand: no provisioner answers for it", name)}
	}
	return NotOursError{fmt.Sprintf("volume %s is of provisioner %s, not of this dispatcher", name, quoted(by))}
}

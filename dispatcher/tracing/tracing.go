package tracing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// Names of spans. docs/tracing.md explains each.
const (
	// Provision is the root: from the claim's creation until it is bound.
	Provision = "provision"
	// Wait is until the claim's first pod is created.
	Wait = "wait"
	// Bind is from the volume's creation until it is bound.
	Bind = "bind"
	// Attempt is a pod, from its creation to its end. It consists of the three others.
	Attempt = "attempt"
	// Schedule is until the pod has a node.
	Schedule = "schedule"
	// Start is until its container runs.
	Start = "start"
	// Run is until the container has ended.
	Run = "run"
)

// attemptKey has the number of the attempt. There is no convention for it.
const attemptKey = attribute.Key("flex_provisioner.attempt")

// Span is one step on the way of a claim. Times are those of the objects, which have whole seconds.
type Span struct {
	Trace trace.TraceID
	// Parent is not valid for the root.
	ID, Parent trace.SpanID
	Name       string
	Start, End time.Time
	// Failed reports whether the step failed, and Message why. A message may be the image's own, one clean line of it.
	Failed     bool
	Message    string
	Attributes []attribute.KeyValue
}

// Of are the spans that are complete once the outcome of the pod has been acted on: those of its attempt, the wait before the first one
// and, where it is the newest pod of a claim that is bound, those of the claim. Operations other than provision have none.
func Of(s *snapshot.Snapshot, pod *corev1.Pod) []Span {
	all := s.All()
	i := slices.IndexFunc(all, func(a snapshot.Attempt) bool { return a.Pod.UID == pod.UID })
	if i < 0 || all[i].Op != contract.Provision || !all[i].Outcome.Final() {
		return nil
	}
	spans := ofAttempt(s, all[i])
	if all[i].Number == 0 && s.Claim != nil { // later the pod may be gone
		spans = append(spans, rootOf(s).child(s.UID, Wait, s.Claim.CreationTimestamp.Time, pod.CreationTimestamp.Time))
	}
	if s.Newest(all[i]) && s.Claim != nil && s.Volume != nil && s.Claim.Spec.VolumeName == s.Volume.Name {
		spans = append(spans, ofClaim(s)...)
	}
	return spans
}

func ofClaim(s *snapshot.Snapshot) []Span {
	bound := boundAt(s)
	root := rootOf(s)
	root.Start, root.End = s.Claim.CreationTimestamp.Time, bound
	root.Attributes = []attribute.KeyValue{
		semconv.K8SNamespaceName(s.Claim.Namespace),
		semconv.K8SPersistentvolumeclaimName(s.Claim.Name),
		semconv.K8SPersistentvolumeclaimUID(s.UID),
		semconv.K8SStorageclassName(s.ClassName),
		semconv.K8SPersistentvolumeName(s.Volume.Name),
	}
	return []Span{root, root.child(s.UID, Bind, s.Volume.CreationTimestamp.Time, bound)}
}

// boundAt is when the volume was bound. Until the cache shows that of the volume, the claim says that it happened just now.
func boundAt(s *snapshot.Snapshot) time.Time {
	if at := s.Volume.Status.LastPhaseTransitionTime; at != nil && s.Volume.Status.Phase == corev1.VolumeBound {
		return at.Time
	}
	return s.Now
}

func ofAttempt(s *snapshot.Snapshot, a snapshot.Attempt) []Span {
	pod, uid := a.Pod, string(a.Pod.UID)
	created, ended := pod.CreationTimestamp.Time, s.Ended(a)
	span := rootOf(s).child(uid, Attempt, created, ended)
	span.Attributes = []attribute.KeyValue{
		semconv.K8SNamespaceName(pod.Namespace),
		semconv.K8SPodName(pod.Name),
		semconv.K8SPodUID(uid),
		attemptKey.Int(a.Number),
	}
	if a.Outcome.Node != "" {
		span.Attributes = append(span.Attributes, semconv.K8SNodeName(a.Outcome.Node))
	}
	if a.Outcome.ExitCode >= 0 {
		span.Attributes = append(span.Attributes, semconv.ProcessExitCode(int(a.Outcome.ExitCode)))
	}
	if span.Failed = a.Outcome.Phase == podspec.Failed; span.Failed {
		span.Attributes = append(span.Attributes, semconv.ErrorTypeKey.String(string(a.Outcome.Reason)))
		span.Message = podspec.EventMessage(a.Outcome.Message)
	}
	spans, at := []Span{span}, created
	for _, step := range []struct {
		name string
		end  time.Time
	}{{Schedule, scheduledAt(pod)}, {Start, runningAt(pod)}, {Run, ended}} {
		if step.end.IsZero() { // the pod did not come so far, so that its last step took the rest
			return append(spans, span.child(uid, step.name, at, ended))
		}
		end := within(step.end, at, ended)
		spans = append(spans, span.child(uid, step.name, at, end))
		at = end
	}
	return spans
}

func scheduledAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

func runningAt(pod *corev1.Pod) time.Time {
	for _, status := range pod.Status.ContainerStatuses {
		if t := status.State.Terminated; status.Name == podspec.ContainerName && t != nil {
			return t.StartedAt.Time
		}
	}
	return time.Time{}
}

// within keeps steps in their order: the clocks of API server, scheduler and nodes may differ.
func within(at, from, to time.Time) time.Time {
	switch {
	case at.Before(from):
		return from
	case at.After(to):
		return to
	}
	return at
}

// rootOf is the root without what is known only when the claim is bound.
func rootOf(s *snapshot.Snapshot) Span {
	return Span{Trace: TraceID(s.UID), ID: spanID(s.UID, Provision), Name: Provision}
}

func (s Span) child(uid, name string, start, end time.Time) Span {
	if end.Before(start) {
		end = start
	}
	return Span{Trace: s.Trace, ID: spanID(uid, name), Parent: s.ID, Name: name, Start: start, End: end}
}

// TraceID is the claim's UID without its dashes, by which a trace is found. One that is no UUID is hashed.
func TraceID(claimUID string) (id trace.TraceID) {
	if raw, err := hex.DecodeString(strings.ReplaceAll(claimUID, "-", "")); err == nil && len(raw) == len(id) {
		return trace.TraceID(raw)
	}
	sum := sha256.Sum256([]byte(claimUID))
	return trace.TraceID(sum[:len(id)])
}

func spanID(uid, name string) (id trace.SpanID) {
	sum := sha256.Sum256([]byte(uid + "/" + name))
	return trace.SpanID(sum[:len(id)])
}

// Sampled reports whether a trace is one of so many in a million, by the 56 bits at the end of its ID. In a UUID they are random.
func Sampled(id trace.TraceID, perMillion int32) bool {
	const all = 1 << 56
	return binary.BigEndian.Uint64(id[8:])%all < uint64(max(0, perMillion))*(all/1_000_000+1)
}

package tracing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// at is so many seconds after noon, when the claim is created.
func at(seconds int) time.Time { return dispatchertest.Noon.Add(time.Duration(seconds) * time.Second) }

// pod is dispatchertest.Pod with the seconds in which it was created, given a node, seen to run, and ended; -1 for never.
func pod(words string, created, scheduled, running, ended int) *corev1.Pod {
	pod := dispatchertest.Pod(words, at(created), at(ended))
	if scheduled >= 0 {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: at(scheduled)}})
	}
	if running >= 0 {
		pod.Status.ContainerStatuses[0].State.Terminated.StartedAt = metav1.Time{Time: at(running)}
	}
	return pod
}

func claim(words string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID, CreationTimestamp: metav1.Time{Time: at(0)}}}
	if words == "bound" {
		c.Spec.VolumeName = "pvc-" + dispatchertest.UID
	}
	return c
}

// volume is made in one second and bound in another, which the cache shows or not.
func volume(words string, created, bound int) *corev1.PersistentVolume {
	v := dispatchertest.Volume(words)
	v.CreationTimestamp.Time = at(created)
	v.Status.LastPhaseTransitionTime = &metav1.Time{Time: at(bound)}
	return v
}

// shown is each span as "parent/name 0-3", then its fault and its attributes without those of every span of its kind.
func shown(spans []Span) string {
	names := map[trace.SpanID]string{rootOf(&snapshot.Snapshot{UID: dispatchertest.UID}).ID: Provision}
	for _, s := range spans {
		names[s.ID] = s.Name
	}
	var text strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&text, "%s/%s %d-%d", names[s.Parent], s.Name, int(s.Start.Sub(at(0)).Seconds()), int(s.End.Sub(at(0)).Seconds()))
		if s.Failed {
			fmt.Fprintf(&text, " failed %q", s.Message)
		}
		for _, a := range s.Attributes {
			fmt.Fprintf(&text, " %s=%s", a.Key, a.Value.String())
		}
		text.WriteString("\n")
	}
	return text.String()
}

const ofPod0 = "k8s.namespace.name=ns k8s.pod.name=prov-" + dispatchertest.UID + "-0 k8s.pod.uid=prov-0 flex_provisioner.attempt=0"

const ofClaim0 = "k8s.namespace.name=team-a k8s.persistentvolumeclaim.name=data k8s.persistentvolumeclaim.uid=" + dispatchertest.UID +
	" k8s.storageclass.name=silver k8s.persistentvolume.name=pvc-" + dispatchertest.UID

func TestOf(t *testing.T) {
	done, failed := pod("prov-0 done", 1, 2, 4, 9), pod("prov-0 failed", 1, 2, 4, 9)
	second := pod("prov-1 done", 20, 20, 21, 25)
	hostile := pod("prov-0 failed", 1, 2, 4, 9)
	hostile.Status.ContainerStatuses[0].State.Terminated.Message = "no\n\x1b[2J" + strings.Repeat("x", 5000)
	for name, c := range map[string]struct {
		claim  *corev1.PersistentVolumeClaim
		volume *corev1.PersistentVolume
		pods   []*corev1.Pod
		of     *corev1.Pod
		want   string
	}{
		"bound by its first pod": {claim("bound"), volume("bound", 7, 8), []*corev1.Pod{done}, done, `
			provision/attempt 1-9 ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=0
			attempt/schedule 1-2
			attempt/start 2-4
			attempt/run 4-9
			provision/wait 0-1
			/provision 0-8 ` + ofClaim0 + `
			provision/bind 7-8`},
		"the cache does not show yet that the volume is bound": {claim("bound"), volume("available", 7, 7), []*corev1.Pod{done}, done, `
			provision/attempt 1-9 ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=0
			attempt/schedule 1-2
			attempt/start 2-4
			attempt/run 4-9
			provision/wait 0-1
			/provision 0-60 ` + ofClaim0 + `
			provision/bind 7-60`},
		"failed, and the claim waits": {claim(""), nil, []*corev1.Pod{failed}, failed, `
			provision/attempt 1-9 failed "the container exited with code 1 and left no message" ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=1 error.type=ProvisionerFailed
			attempt/schedule 1-2
			attempt/start 2-4
			attempt/run 4-9
			provision/wait 0-1`},
		"bound by its second pod, which tells of the claim when the first is gone": {claim("bound"), volume("bound", 24, 25), []*corev1.Pod{second}, second, `
			provision/attempt 20-25 k8s.namespace.name=ns k8s.pod.name=prov-` + dispatchertest.UID + `-1 k8s.pod.uid=prov-1 flex_provisioner.attempt=1 k8s.node.name=node1 process.exit.code=0
			attempt/schedule 20-20
			attempt/start 20-21
			attempt/run 21-25
			/provision 0-25 ` + ofClaim0 + `
			provision/bind 24-25`},
		"the first of two tells of the wait for it alone": {claim("bound"), volume("bound", 24, 25), []*corev1.Pod{failed, second}, failed, `
			provision/attempt 1-9 failed "the container exited with code 1 and left no message" ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=1 error.type=ProvisionerFailed
			attempt/schedule 1-2
			attempt/start 2-4
			attempt/run 4-9
			provision/wait 0-1`},
		"ended before its container ran": {nil, nil, []*corev1.Pod{pod("prov-0 evicted", 1, 2, -1, 9)}, pod("prov-0 evicted", 1, 2, -1, 9), `
			provision/attempt 1-9 failed "the node ended the pod: Evicted:" ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=137 error.type=ProvisionerEvicted
			attempt/schedule 1-2
			attempt/start 2-9`},
		"deleted before it had a node": {nil, nil, []*corev1.Pod{pod("prov-0 unstarted", -5, -1, -1, 0)}, pod("prov-0 unstarted", -5, -1, -1, 0), `
			provision/attempt -5-0 failed "the pod was deleted before it was given a node" ` + ofPod0 + ` error.type=ProvisionerEvicted
			attempt/schedule -5-0`},
		"clocks that differ": {nil, nil, []*corev1.Pod{pod("prov-0 done", 5, 4, 50, 9)}, pod("prov-0 done", 5, 4, 50, 9), `
			provision/attempt 5-9 ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=0
			attempt/schedule 5-5
			attempt/start 5-9
			attempt/run 9-9`},
		"what the image says is one clean line of bounded length": {nil, nil, []*corev1.Pod{hostile}, hostile, `
			provision/attempt 1-9 failed "` + podspec.Clip(podspec.OutcomeOf(hostile).Message, 1024) + `" ` + ofPod0 + ` k8s.node.name=node1 process.exit.code=1 error.type=ProvisionerFailed
			attempt/schedule 1-2
			attempt/start 2-4
			attempt/run 4-9`},
		"a pod that runs":   {claim(""), nil, []*corev1.Pod{pod("prov-0 running", 1, 2, -1, 0)}, pod("prov-0 running", 1, 2, -1, 0), ""},
		"a delete":          {nil, volume("released", 7, 8), []*corev1.Pod{pod("del-0 done", 20, 21, 22, 23)}, pod("del-0 done", 20, 21, 22, 23), ""},
		"a pod of no claim": {claim("bound"), volume("bound", 7, 8), nil, done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &snapshot.Snapshot{Now: at(60), UID: dispatchertest.UID, ClassName: "silver", Provisioner: "p", Claim: c.claim}
			s.SetVolume(c.volume)
			for _, pod := range c.pods {
				s.Add(snapshot.NewAttempt(pod, ""))
			}
			s.Sort()
			got, want := shown(Of(s, c.of)), strings.ReplaceAll(strings.TrimLeft(c.want, "\n\t"), "\t", "")
			if strings.TrimSpace(got) != want {
				t.Errorf("got\n%swant\n%s", got, want)
			}
		})
	}
}

// A new leader makes the same spans of a claim, and no two spans of it have one ID.
func TestIDs(t *testing.T) {
	made := func() []Span {
		s := &snapshot.Snapshot{Now: at(60), UID: dispatchertest.UID, Provisioner: "p", Claim: claim("bound")}
		s.SetVolume(volume("bound", 7, 8))
		first, second := pod("prov-0 done", 1, 2, 4, 9), pod("prov-1 done", 1, 2, 4, 9)
		s.Add(snapshot.NewAttempt(first, ""))
		s.Add(snapshot.NewAttempt(second, ""))
		return append(Of(s, first), Of(s, second)...)
	}
	one, other, seen := made(), made(), map[trace.SpanID]bool{}
	if len(one) != 11 {
		t.Errorf("%d spans, want 11", len(one))
	}
	for i, s := range one {
		if s.ID != other[i].ID || s.Trace != other[i].Trace || s.Trace.String() != strings.ReplaceAll(dispatchertest.UID, "-", "") {
			t.Errorf("span %s is %s of %s, then %s of %s", s.Name, s.ID, s.Trace, other[i].ID, other[i].Trace)
		}
		if seen[s.ID] || !s.ID.IsValid() {
			t.Errorf("span %s has ID %s again", s.Name, s.ID)
		}
		seen[s.ID] = true
	}
	if a, b := TraceID("no UUID"), TraceID("another"); a == b || !a.IsValid() || !b.IsValid() {
		t.Errorf("the traces of other UIDs are %s and %s", a, b)
	}
}

// UIDs are UUIDs of version 4, of which six bits in the middle are no random ones.
func TestSampled(t *testing.T) {
	uid := func(i uint64) string {
		random := i * 0x9E3779B97F4A7C15 >> 8 // spreads evenly
		return fmt.Sprintf("%08x-0000-4000-80%02x-%012x", i, random>>48, random&(1<<48-1))
	}
	const claims = 10_000
	for rate, want := range map[int32]int{1_000_000: claims, 500_000: claims / 2, 10_000: claims / 100, 0: 0, -1: 0} {
		sampled := 0
		for i := range uint64(claims) {
			if Sampled(TraceID(uid(i)), rate) {
				sampled++
			}
		}
		if sampled < want-want/50-1 || sampled > want+want/50+1 {
			t.Errorf("at %d of a million %d of %d claims are sampled, want about %d", rate, sampled, claims, want)
		}
	}
	if last := TraceID("ffffffff-ffff-4fff-bfff-ffffffffffff"); !Sampled(last, 1_000_000) || Sampled(last, 999_000) {
		t.Error("the last of all claims is not sampled with all, or is sampled with fewer")
	}
}

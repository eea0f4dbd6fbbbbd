package recorder

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

func started(t *testing.T) (*Recorder, *record.FakeRecorder, *prometheus.Registry) {
	t.Helper()
	registry, recorded := prometheus.NewRegistry(), record.NewFakeRecorder(20)
	r := New(NewMetrics(registry), time.Now)
	r.StartWith(recorded, klog.New(nil))
	return r, recorded, registry
}

// What a volume's fields say goes into an event as one bounded line.
func TestEventsAreBounded(t *testing.T) {
	r, recorded, _ := started(t)
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{UID: "v"}, Spec: corev1.PersistentVolumeSpec{
		ClaimRef: &corev1.ObjectReference{Namespace: "a\x1b[2J\nb", Name: strings.Repeat("ä", 5000)}}}
	r.Record(Subject{UID: "u", Claim: claim}, events.VolumeDoesNotFit(volume, podspec.Misfits(volume, claim)), nil)
	got := <-recorded.Events
	want := "Warning VolumeDoesNotFit volume does not fit the claim: spec.claimRef is a [2J b/ää"
	if !strings.HasPrefix(got, want) || len(got) > len("Warning VolumeDoesNotFit ")+podspec.MaxEvent || !strings.HasSuffix(got, "ä...") {
		t.Errorf("event of %d bytes: %.100q…, want %q… and at most %d bytes", len(got), got, want, podspec.MaxEvent)
	}
}

// What its author changes all the time is told of, and not remembered for ever.
func TestSaidIsBounded(t *testing.T) {
	var s history
	for i := range 10 * maxKeys {
		if key := fmt.Sprint(i, strings.Repeat("x", 2*podspec.MaxEvent)); !s.due(key, dispatchertest.Noon, true) || s.due(key, dispatchertest.Noon, true) {
			t.Fatalf("key %d is not said once", i)
		}
		if len(s.keys) > maxKeys {
			t.Fatalf("%d keys are remembered", len(s.keys))
		}
	}
	for key := range s.keys {
		if len(key) > podspec.MaxEvent {
			t.Fatalf("a key of %d bytes is remembered", len(key))
		}
	}
}

// Each event is written once for a claim, until its pod is created, cleaned up, or the claim forgotten.
func TestRecordOnce(t *testing.T) {
	r, recorded, _ := started(t)
	about := Subject{UID: "u", Class: "silver", Claim: &corev1.PersistentVolumeClaim{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prov-u-0"}}
	failed := events.AttemptProblem(events.OnClaim, pod, podspec.ReasonFailed, "no room")
	failed.WithPodLog = true
	logs := 0
	for _, step := range []struct {
		name string
		do   func()
		e    events.Event
		want string
	}{
		{"a problem", nil, failed, "Warning ProvisionerFailed no room (pod ns/prov-u-0); it printed nothing"},
		{"again", nil, failed, ""},
		{"after its pod was cleaned up", func() { r.PodCleanedUp("u", "prov-u-0") }, failed, "Warning ProvisionerFailed no room (pod ns/prov-u-0); it printed nothing"},
		{"after the next was created", func() { r.PodCreated("u") }, failed, "Warning ProvisionerFailed no room (pod ns/prov-u-0); it printed nothing"},
		{"another", nil, events.ClaimWaits(events.ReasonConfigMissing, "none"), "Warning ProvisionerConfigMissing none"},
		{"without a key", nil, events.Event{On: events.OnClaim}, ""},
		{"of a volume that is not known", nil, events.DeletionWaits(events.OnVolume, nil, events.ReasonHeld, "x"), ""},
		{"a log line", nil, events.Event{On: events.OnClaim, Key: "k", LogOnly: true}, ""},
		{"after the claim was forgotten", func() { r.Forget("u") }, events.ClaimWaits(events.ReasonConfigMissing, "none"), "Warning ProvisionerConfigMissing none"},
	} {
		if step.do != nil {
			step.do()
		}
		r.Record(about, step.e, func(events.Event) string { logs++; return "it printed nothing" })
		got := ""
		select {
		case got = <-recorded.Events:
		default:
		}
		if got != step.want {
			t.Errorf("%s: %q, want %q", step.name, got, step.want)
		}
	}
	if logs != 3 || !r.Warned("u") {
		t.Errorf("the log was read %d times, warned %t", logs, r.Warned("u"))
	}
	if r.Forget("u"); len(r.claims) != 0 {
		t.Errorf("remembers %v", r.claims)
	}
}

// The metric counts what waits for an administrator, by class and reason, as it comes and goes.
func TestProtectedMetric(t *testing.T) {
	r, _, registry := started(t)
	for _, step := range []struct {
		uid    string
		reason podspec.Reason
		want   string
	}{
		{"a", events.ReasonHeld, "DeletionHeld 1"},
		{"a", events.ReasonHeld, "DeletionHeld 1"},
		{"b", events.ReasonHeld, "DeletionHeld 2"},
		{"a", events.ReasonStopped, "DeletionHeld 1, DeletionStopped 1"},
		{"a", podspec.ReasonNone, "DeletionHeld 1, DeletionStopped 0"},
		{"c", podspec.ReasonNone, "DeletionHeld 1, DeletionStopped 0"},
		{"b", podspec.ReasonNone, "DeletionHeld 0, DeletionStopped 0"},
	} {
		r.SetProtected(step.uid, "silver", step.reason)
		if got := dispatchertest.Gauges(t, registry, "flex_provisioner_held"); got != step.want {
			t.Errorf("after %s %q: %s, want %s", step.uid, step.reason, got, step.want)
		}
	}
	if len(r.protected) != 0 {
		t.Errorf("remembers %v", r.protected)
	}
}

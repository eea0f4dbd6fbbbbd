package recorder

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// TestLongMessages: whoever wrote the text of a warning, and however it is recorded, an event is of bounded size. So
// is what is remembered.
func TestLongMessages(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		long := strings.Repeat("long\n", 50_000)
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "silver", UID: "cm"}}
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "v"}}
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "data", UID: "1"}}
		refused := events.Event{On: events.OnClaim, Warning: true, Reason: events.ReasonClaimRefused,
			Key: "refused", Message: long}
		r.RecordConfigMap(cm, events.ReasonConfigDuplicate, long)
		r.Warn(v, "", events.ReasonOrphan, long)
		r.Record(Subject{UID: "1", Claim: claim}, refused, PodLog{})
		time.Sleep(time.Minute)
		list := apiserver.List[*corev1.Event](api.Server, apiserver.Events)
		for _, e := range list {
			if len(e.Message) > podspec.MaxEvent || strings.Contains(e.Message, "\n") {
				t.Errorf("%s has %d bytes", e.Reason, len(e.Message))
			}
		}

		if len(list) != 3 {
			t.Errorf("%d events were written, want 3", len(list))
		}
	})
}

// bubble runs a test in virtual time, of a recorder that writes to a double of the API server.
func bubble(t *testing.T, test func(t *testing.T, r *Recorder, api *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		api := &api{Server: apiserver.New()}
		r := New(NewMetrics(prometheus.NewRegistry()), time.Now)
		stop := r.Start(klog.NewContext(t.Context(), klog.New(nil)), apiserver.Client(api))
		test(t, r, api)
		stop()
		time.Sleep(time.Hour) // for timers to come to their ends
	})
}

// api is the double. refuse may answer a write instead.
type api struct {
	*apiserver.Server
	writes atomic.Int32
	mu     sync.Mutex
	refuse func(r *http.Request) (code int, err error)
}

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	a.writes.Add(1)
	a.mu.Lock()
	refuse := a.refuse
	a.mu.Unlock()
	if refuse != nil {
		switch code, err := refuse(r); {
		case err != nil:
			return nil, err
		case code != 0:
			answer := fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code)
			return apiserver.Respond(r, code, answer), nil
		}
	}

	return a.Server.RoundTrip(r)
}

// refuseBy sets what may answer a write instead, nil for nothing.
func (a *api) refuseBy(refuse func(r *http.Request) (code int, err error)) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.refuse = refuse
}

// told are the events that were written, in the order of their last writes, where one says how often it was.
func (a *api) told() []string {
	synctest.Wait()
	return apiserver.Told(a.Server)
}

// times is how often events were told.
func (a *api) times() (n int32) {
	for _, e := range apiserver.List[*corev1.Event](a.Server, apiserver.Events) {
		n += e.Count
	}

	return n
}

func newRecorder() (*Recorder, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return New(NewMetrics(registry), time.Now), registry
}

// What a volume's fields say goes into an event as one bounded line.
func TestEventsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{UID: "v"}, Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "a\x1b[2J\nb", Name: strings.Repeat("ä", 5000)}}}
		r.Record(Subject{UID: "u", Claim: claim}, events.VolumeDoesNotFit(volume, podspec.Misfits(volume, claim), false, nil), PodLog{})
		got := api.told()[0]
		want := "Warning VolumeDoesNotFit volume does not fit the claim: spec.claimRef is a [2J b/ää"
		if !strings.HasPrefix(got, want) || len(got) > len("Warning VolumeDoesNotFit ")+podspec.MaxEvent || !strings.HasSuffix(got, "ä...") {
			t.Errorf("event of %d bytes: %.100q…, want %q… and at most %d bytes", len(got), got, want, podspec.MaxEvent)
		}
	})
}

// What its author changes all the time is told of, and not remembered for ever.
func TestSaidIsBounded(t *testing.T) {
	var s history
	for i := range 10 * maxEvents {
		if id := identityOf(events.Event{Key: fmt.Sprint(i, strings.Repeat("x", 2*podspec.MaxEvent))}); !s.due(id, dispatchertest.Noon, true) || s.due(id, dispatchertest.Noon, true) {
			t.Fatalf("event %d is not said once", i)
		}

		if len(s.events) > maxEvents {
			t.Fatalf("%d events are remembered", len(s.events))
		}
	}
}

// Each event is written once for a claim, until its pod is created, cleaned up, or the claim forgotten.
func TestRecordOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
		about := Subject{UID: "u", Class: "silver", Claim: claim}
		waits := events.ClaimWaits(events.ReasonConfigMissing, "none")
		const hasFailed, hasWaited = "Warning ProvisionerFailed no room (pod ns/prov-u-0); it printed nothing", "Warning ProvisionerConfigMissing none"
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prov-u-0"}}
		failed := events.AttemptProblem(events.OnClaim, pod, podspec.ReasonFailed, "no room")
		logs := 0
		log := PodLog{Pod: pod, Read: func(context.Context) string { logs++; return "it printed nothing" }}
		for _, step := range []struct {
			name string
			do   func()
			e    events.Event
			want string
		}{
			{"a problem", nil, failed, hasFailed},
			{"again", nil, failed, ""},
			{"after its pod was cleaned up", func() { r.PodAcknowledged("u", "prov-u-0") }, failed, hasFailed},
			{"after the next was created", func() { r.PodCreated("u") }, failed, hasFailed},
			{"another", nil, waits, hasWaited},
			{"without a key", nil, events.Event{On: events.OnClaim}, ""},
			{"of a volume that is not known", nil, events.DeletionWaits(events.OnVolume, nil, events.ReasonHeld, "x"), ""},
			{"a log line", nil, events.Event{On: events.OnClaim, Key: "k", LogOnly: true}, ""},
			{"after the claim was forgotten", func() { r.Forget("u") }, waits, hasWaited},
			{"an hour later", func() { time.Sleep(RemindAfter) }, waits, hasWaited},
		} {
			if step.do != nil {
				step.do()
			}

			before, of := api.times(), PodLog{}
			if step.e.Reason == podspec.ReasonFailed {
				of = log
			}

			r.Record(about, step.e, of)
			got := ""
			if told := api.told(); api.times() > before {
				got = told[len(told)-1]
			}

			if got != step.want || api.times() > before+1 {
				t.Errorf("%s: %q, want %q", step.name, got, step.want)
			}
		}

		if logs != 3 || !r.Warned("u") {
			t.Errorf("the log was read %d times, warned %t", logs, r.Warned("u"))
		}

		if n := len(api.told()); n != 3 {
			t.Errorf("there are %d Events, want one that is updated, and after an hour a new one: %q", n, api.told())
		}

		if r.Forget("u"); len(r.claims) != 0 {
			t.Errorf("remembers %v", r.claims)
		}
	})
}

// An event is another one with another reason, or on another object. The volume that was made may turn out unfit.
func TestRecordOfOneKey(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "data", UID: "u"}}
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-u", UID: "v"}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "prov-u-0"}}
		for _, e := range []events.Event{
			events.ProvisioningSucceeded(volume, pod),
			events.VolumeDoesNotFit(volume, []string{"spec.claimRef is missing"}, false, pod),
			events.ExpansionWaits(events.ReasonConfigMissing, "none"),
			events.DeletionWaits(events.OnVolume, nil, events.ReasonConfigMissing, "none"),
		} {
			before := api.times()
			r.Record(Subject{UID: "u", Claim: claim, Volume: volume}, e, PodLog{})
			if api.told(); api.times() != before+1 {
				t.Errorf("%s on the %s is not recorded", e.Reason, e.On)
			}
		}
	})
}

// The metric counts what waits for an administrator, by class and reason, as it comes and goes.
func TestProtectedMetric(t *testing.T) {
	r, registry := newRecorder()
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

package recorder

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

func subjectOf(i int) Subject {
	uid := fmt.Sprintf("11111111-2222-3333-4444-%012d", i)
	meta := metav1.ObjectMeta{Namespace: "team", Name: fmt.Sprint("data-", i), UID: types.UID(uid)}

	return Subject{UID: uid, Class: "silver", Claim: &corev1.PersistentVolumeClaim{ObjectMeta: meta}}
}

func lacks(i int) events.Event {
	return events.ClaimWaits(events.ReasonConfigMissing, fmt.Sprint("no ConfigMap, says version ", i))
}

// TestEverybodyIsTold: of thousands of events at once, none is lost, and none is written twice. Of what comes later
// about the same objects, only the latest is written.
func TestEverybodyIsTold(t *testing.T) {
	for _, c := range []struct {
		claims, versions int
		writes           int32 // at most: what was written in a second is written again
	}{{6000, 1, 6000}, {1500, 3, 1500 + 2*400}} {
		claims, versions, most := c.claims, c.versions, c.writes
		bubble(t, func(t *testing.T, r *Recorder, api *api) {
			for version := range versions {
				for i := range claims {
					r.Record(subjectOf(i), lacks(version), PodLog{})
				}

				time.Sleep(time.Second)
			}

			time.Sleep(10 * time.Minute)

			latest := map[string]bool{}
			for _, e := range apiserver.List[*corev1.Event](api.Server, apiserver.Events) {
				if e.Message == lacks(versions-1).Message {
					latest[e.InvolvedObject.Name] = true
				}
			}

			if writes := api.writes.Load(); len(latest) != claims || writes > most {
				t.Errorf("after ten minutes %d of %d claims have their latest reason, by %d writes, want at most %d",
					len(latest), claims, writes, most)
			}

			for i := range claims {
				r.Record(subjectOf(i), lacks(versions-1), PodLog{})
			}

			before := api.writes.Load()
			if time.Sleep(time.Minute); api.writes.Load() != before {
				t.Errorf("what is told was written again %d times", api.writes.Load()-before)
			}
		})
	}
}

// TestLongRunsWait: what thousands of claims have at the same time takes no memory for all of them. Each is told in the
// end, once.
func TestLongRunsWait(t *testing.T) {
	const claims = 6000

	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		runsLong := func(i int) events.Event {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("prov-", i)}}
			return events.RunsLong(events.OnClaim, pod, time.Now(), time.Hour)
		}
		due := map[int]time.Time{}
		for range 600 {
			for i := range claims {
				if at, again := due[i]; again && at.After(time.Now()) || !again && len(due) == claims {
					continue
				}

				r.Record(subjectOf(i), runsLong(i), PodLog{})
				due[i] = r.RemindAt(subjectOf(i).UID, []events.Event{runsLong(i)})
				if due[i].IsZero() {
					due[i] = time.Now().Add(24 * time.Hour)
				}
			}

			r.mu.Lock()
			waiting, remembered := len(r.store.order), len(r.claims)
			r.mu.Unlock()
			if waiting > maxCrowd || remembered > waiting+int(api.writes.Load()) {
				t.Fatalf("%d events wait, and %d claims are remembered", waiting, remembered)
			}

			time.Sleep(time.Second)
		}

		told := map[string]int{}
		for _, e := range apiserver.List[*corev1.Event](api.Server, apiserver.Events) {
			told[e.InvolvedObject.Name]++
		}

		if writes := api.writes.Load(); len(told) != claims || writes != claims {
			t.Errorf("%d of %d claims are told, by %d writes", len(told), claims, writes)
		}
	})
}

// TestOneFloodsOthersAreTold: an object about which there is always something new delays the events about another one
// by a moment, and costs one write in half a minute.
func TestOneFloodsOthersAreTold(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm", UID: "cm"}}
		for i := range 10_000 {
			r.Record(subjectOf(0), lacks(i), PodLog{})
			if i%10 == 0 {
				r.Warn(cm, fmt.Sprint("claim-", i), events.ReasonLog, fmt.Sprint("the log of pod ", i))
				time.Sleep(time.Millisecond)
			}
		}

		r.Record(subjectOf(1), lacks(0), PodLog{})
		time.Sleep(time.Second)
		told := map[string]int{}
		for _, e := range apiserver.List[*corev1.Event](api.Server, apiserver.Events) {
			told[e.InvolvedObject.Name]++
		}

		if told["data-1"] != 1 || told["data-0"] > ownEvents {
			t.Errorf("a second after a flood about data-0 and cm these are told: %v", told)
		}

		time.Sleep(10 * time.Minute)
		latest := false
		for _, e := range apiserver.List[*corev1.Event](api.Server, apiserver.Events) {
			told[e.InvolvedObject.Name]++
			latest = latest || e.InvolvedObject.Name == "data-0" && e.Message == lacks(9999).Message
		}

		if !latest || told["cm"] < 1000 {
			t.Errorf("ten minutes later the latest about data-0 is told: %t, all: %v", latest, told)
		}
	})
}

// TestWarningsFirst: warnings do not wait for what is normal.
func TestWarningsFirst(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		for i := range 3000 {
			r.Record(subjectOf(i), events.Undo(&corev1.Pod{}), PodLog{})
		}

		r.Record(subjectOf(0), lacks(0), PodLog{})
		time.Sleep(time.Second)
		told := api.told()
		warned := slices.Contains(told, "Warning ProvisionerConfigMissing "+lacks(0).Message)
		if !warned || len(told) > 1000 {
			t.Errorf("after a second %d are told, and the warning: %t", len(told), warned)
		}
	})
}

// TestStoreIsBounded: what is too much is given up, Normal events first and then the oldest, and does not count as
// told.
func TestStoreIsBounded(t *testing.T) {
	r, registry := newRecorder() // nothing is written
	r.log = klog.New(nil)
	normal := func(i int) { r.Record(subjectOf(i), events.Undo(&corev1.Pod{}), PodLog{}) }
	warn := func(i int) { r.Record(subjectOf(i), lacks(0), PodLog{}) }
	holds := func() string {
		first, last := r.store.order[0], r.store.order[len(r.store.order)-1]

		return fmt.Sprintf("%d of %d, from %s %s to %s %s", len(r.store.order), len(r.store.slots),
			first.key.name, first.event.reason, last.key.name, last.event.reason)
	}
	for i := range 100 {
		normal(i)
	}

	for i := range maxPending {
		warn(i)
	}

	const holding = "%d of %[1]d, from data-%d ProvisionerConfigMissing to data-%d ProvisionerConfigMissing"
	full := holds()
	if want := fmt.Sprintf(holding, maxPending, 0, maxPending-1); full != want {
		t.Errorf("holds %s, want %s", full, want)
	}

	if normal(1); holds() != full {
		t.Errorf("a Normal event took the place of a warning: %s", holds())
	}

	if warn(0); holds() != full {
		t.Errorf("what waits was recorded again: %s", holds())
	}

	warn(maxPending) // instead of the oldest
	warn(0)          // which counts as not told: again, instead of the second
	if want := fmt.Sprintf(holding, maxPending, 2, 0); holds() != want {
		t.Errorf("holds %s, want %s", holds(), want)
	}

	if len(r.store.lines) != maxPending {
		t.Errorf("%d objects are in line", len(r.store.lines))
	}

	if lost := lostBy(t, registry)[lostFull]; lost != 103 {
		t.Errorf("%v events are counted as lost, want 103", lost)
	}
}

// lostBy counts the events that were given up, by cause.
func lostBy(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	by := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "flex_provisioner_events_lost_total" {
			continue
		}

		for _, m := range family.Metric {
			by[m.Label[0].GetValue()] = m.Counter.GetValue()
		}
	}

	return by
}

// TestLostStartsAtZero: each cause has a series before its first event, so that Prometheus sees the increase.
func TestLostStartsAtZero(t *testing.T) {
	_, registry := newRecorder()
	want := map[string]float64{lostFull: 0, lostRefused: 0, lostOutdated: 0, lostEnded: 0}
	if got := lostBy(t, registry); !maps.Equal(got, want) {
		t.Errorf("series %v, want %v", got, want)
	}
}

// TestRetries: what the API server does not answer, or refuses for now, is written again, with growing delays, for an
// hour. What it refuses is given up, and counts as told, so that it is not tried at each reconciliation.
func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		code  int
		err   error
		tries func(n int) bool // in half an hour
		then  int              // events
	}{
		"no answer":  {err: syscall.ECONNRESET, tries: func(n int) bool { return n > 30 && n < 40 }, then: 1},
		"5xx":        {code: 500, tries: func(n int) bool { return n > 30 && n < 40 }, then: 1},
		"429":        {code: 429, tries: func(n int) bool { return n > 30 && n < 40 }, then: 1},
		"forbidden":  {code: 403, tries: func(n int) bool { return n == 1 }},
		"no message": {code: 422, tries: func(n int) bool { return n == 1 }},
		"gone":       {code: 404, tries: func(n int) bool { return n == 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *Recorder, api *api) {
				api.refuseBy(func(*http.Request) (int, error) { return c.code, c.err })
				for range 30 {
					r.Record(subjectOf(0), lacks(0), PodLog{})
					time.Sleep(time.Minute)
				}

				if n := int(api.writes.Load()); !c.tries(n) {
					t.Errorf("it was tried %d times in half an hour", n)
				}

				api.refuseBy(nil)
				time.Sleep(2 * time.Minute)
				if told := api.told(); len(told) != c.then || api.times() != int32(c.then) {
					t.Errorf("then %q is told, %d times", told, api.times())
				}

				time.Sleep(RemindAfter)
				r.Record(subjectOf(0), lacks(0), PodLog{})
				if told := api.told(); len(told) != c.then+1 {
					t.Errorf("an hour later %q is told", told)
				}
			})
		})
	}
}

// TestUnansweredCreation: a creation that took effect without an answer leaves one Event.
func TestUnansweredCreation(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		first := true
		api.refuseBy(func(hr *http.Request) (int, error) {
			if !first {
				return 0, nil
			}

			first = false
			if _, err := api.Server.RoundTrip(hr); err != nil {
				t.Error(err)
			}

			return 0, syscall.ECONNRESET
		})
		r.Record(subjectOf(0), lacks(0), PodLog{})
		time.Sleep(time.Minute)
		if told := api.told(); len(told) != 1 || api.times() != 1 || api.writes.Load() != 2 {
			t.Errorf("%q is told, %d times by %d writes", told, api.times(), api.writes.Load())
		}
	})
}

// TestOutdatedIsGivenUp: what could not be written for an hour is given up, and recorded again if it is still true.
func TestOutdatedIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		api.refuseBy(func(*http.Request) (int, error) { return 500, nil })
		r.Record(subjectOf(0), lacks(0), PodLog{})
		time.Sleep(2 * time.Hour)
		if synctest.Wait(); len(r.store.order) != 0 {
			t.Errorf("after two hours %d events wait", len(r.store.order))
		}

		if at := r.RemindAt(subjectOf(0).UID, []events.Event{lacks(0)}); time.Until(at) != RemindAfter {
			t.Errorf("the claim is looked at again in %s", time.Until(at))
		}

		api.refuseBy(nil)
		r.Record(subjectOf(0), lacks(0), PodLog{})
		if told := api.told(); len(told) != 1 {
			t.Errorf("it is told again as %q", told)
		}
	})
}

func podOn(node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(node)}, Spec: corev1.PodSpec{NodeName: node}}
}

// TestLogsDelayNobody: events whose logs do not come are written without them within ten seconds, other events and
// other nodes' logs at once.
func TestLogsDelayNobody(t *testing.T) {
	bubble(t, func(t *testing.T, r *Recorder, api *api) {
		log := func(node string, read func(ctx context.Context) string) PodLog {
			pod := podOn(node)
			return PodLog{Pod: pod, Read: read, Missing: "its log cannot be read"}
		}
		hangs := func(ctx context.Context) string { <-ctx.Done(); return "too late" }
		failed := func(i int) events.Event {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprint("prov-", i)}}
			return events.AttemptProblem(events.OnClaim, pod, podspec.ReasonFailed, "exit code 1")
		}
		for i := range 40 {
			r.Record(subjectOf(i), failed(i), log("dead", hangs))
		}

		ends := func(context.Context) string { return "its log ends with: no room" }
		r.Record(subjectOf(40), failed(40), log("alive", ends))
		r.Record(subjectOf(41), lacks(0), PodLog{})
		now := api.told()
		slices.Sort(now)
		want := []string{"Warning ProvisionerConfigMissing " + lacks(0).Message,
			"Warning ProvisionerFailed exit code 1 (pod ns/prov-40); its log ends with: no room"}
		if !slices.Equal(now, want) {
			t.Errorf("at once is told %q, want %q", now, want)
		}

		if !r.AwaitsLog(podOn("dead")) || r.AwaitsLog(podOn("alive")) {
			t.Error("the log of the dead node's pods is not awaited, or that of another one's is")
		}

		time.Sleep(9 * time.Second)
		told := api.told()
		for _, text := range told[2:] {
			_, log, _ := strings.Cut(text, "); ")
			if !strings.HasPrefix(text, "Warning ProvisionerFailed exit code 1 (pod ") || log != "its log cannot be read" && log != "too late" {
				t.Errorf("told %q", text)
			}
		}

		if len(told) != 42 {
			t.Errorf("after nine seconds %d of 42 are told", len(told))
		}

		if r.AwaitsLog(podOn("dead")) {
			t.Error("logs are awaited for ever")
		}
	})
}

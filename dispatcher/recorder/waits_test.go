package recorder

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// gauges registers those that are read from a dispatcher at noon with 3 claims queued.
func gauges(r *Recorder, registry *prometheus.Registry) {
	registry.MustRegister(r.Gauges(Sources{Now: func() time.Time { return dispatchertest.Noon },
		Queued: func() map[string]int { return map[string]int{"silver": 3} }, Pods: func() map[string]int { return map[string]int{"silver": 1} }, PoliciesMissing: func() bool { return true }}))
}

// What waits is counted by class, operation and phase, as it comes, goes on and goes.
func TestWaits(t *testing.T) {
	r, registry := newRecorder()
	gauges(r, registry)
	wait := func(op, phase string, minutes time.Duration) Wait {
		return Wait{Class: "silver", Operation: op, Phase: phase, Since: dispatchertest.Noon.Add(-minutes * time.Minute)}
	}
	for _, step := range []struct {
		uid           string
		wait          Wait
		count, oldest string
	}{
		{"a", wait("provision", "Waiting", 1), "Waiting 1", "Waiting 60"},
		{"b", wait("provision", "Waiting", 5), "Waiting 2", "Waiting 300"},
		{"b", wait("provision", "Running", 5), "Running 1, Waiting 1", "Running 300, Waiting 60"},
		{"b", Wait{}, "Waiting 1", "Waiting 60"},
		{"a", wait("delete", "Held", -5), "Held 1", "Held 0"}, // the API server's clock is ahead
	} {
		r.SetWait(step.uid, step.wait)
		if got := dispatchertest.Gauges(t, registry, "flex_provisioner_waiting"); got != step.count {
			t.Errorf("after %s %v: %s, want %s", step.uid, step.wait, got, step.count)
		}

		if got := dispatchertest.Gauges(t, registry, "flex_provisioner_oldest_wait_seconds"); got != step.oldest {
			t.Errorf("after %s %v: the oldest is %s, want %s", step.uid, step.wait, got, step.oldest)
		}
	}

	if before := r.SetWait("a", wait("delete", "Running", 0)); before.Phase != "Held" {
		t.Errorf("before it was %v", before)
	}

	if r.Forget("a"); len(r.waits) != 0 {
		t.Errorf("remembers %v", r.waits)
	}
}

// Prometheus' own rules for names, types and help texts, asked of every metric with a value.
func TestLint(t *testing.T) {
	r, registry := newRecorder()
	gauges(r, registry)
	r.SetWait("a", Wait{Class: "silver", Operation: "provision", Phase: "Waiting", Since: dispatchertest.Noon})
	r.SetProtected("a", "silver", events.ReasonHeld)
	m := r.Metrics
	m.PodCreated("silver", contract.Provision)
	m.PodEnded("silver", contract.Provision, podspec.Outcome{Phase: podspec.Failed, Reason: podspec.ReasonFailed}, time.Second)
	m.Served("silver", "provision", time.Second)
	m.Failed("silver", podspec.ReasonFailed)
	m.SetConfigOutdated("silver", true, true)
	m.SetOrphans("pod", 1)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}

	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}

	if len(families) != 16 {
		t.Errorf("%d metrics have a value, want all 16", len(families))
	}

	for _, family := range families {
		for _, metric := range family.Metric {
			if h := metric.Histogram; h != nil && (len(h.Bucket) == 0 || len(h.PositiveSpan) == 0) {
				t.Errorf("%s has no classic buckets, or no native ones", family.GetName())
			}
		}
	}
}

// The series of a class end with it, those of another one stay.
func TestSeriesEnd(t *testing.T) {
	r, registry := newRecorder()
	m := r.Metrics
	for _, class := range []string{"gold", "silver"} {
		m.PodCreated(class, contract.Provision)
		m.PodEnded(class, contract.Provision, podspec.Outcome{Phase: podspec.Succeeded}, time.Second)
		m.Served(class, "provision", time.Second)
		m.Failed(class, podspec.ReasonFailed)
	}

	r.now = func() time.Time { return dispatchertest.Noon }
	r.EndClass("gold")
	r.now = func() time.Time { return dispatchertest.Noon.Add(lastReading) }
	r.Expire(func(string) bool { return false })
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, family := range families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetValue() == "gold" {
					t.Errorf("%s still has a series of class gold", family.GetName())
				}
			}
		}
	}
}

// Nobody knows since when an expansion waits that the claim's status says nothing of yet. It has not waited since the year 1.
func TestWaitSinceUnknown(t *testing.T) {
	r, registry := newRecorder()
	gauges(r, registry)
	r.SetWait("a", Wait{Class: "silver", Operation: "expand", Phase: "Waiting"})
	if got, want := dispatchertest.Gauges(t, registry, "flex_provisioner_oldest_wait_seconds"), "Waiting 0"; got != want {
		t.Errorf("the oldest wait is %s, want %s", got, want)
	}
}

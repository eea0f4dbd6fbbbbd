package dispatcher

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// TestAudit: each finding is told once for as long as there are any, and the metric says how many there are.
func TestAudit(t *testing.T) {
	d, events := idle(t), record.NewFakeRecorder(10)
	d.recorder = events
	for i := range 2 {
		v := volumeOf(i)
		v.Status.LastPhaseTransitionTime = &metav1.Time{Time: noon.Add(-2 * time.Hour)}
		if i == 1 {
			v.Finalizers = nil
		}
		add(t, d.caches.volumes.GetIndexer().Add(v))
	}
	d.audit(noon)
	if got, want := gauges(t, d, "flex_provisioner_orphans"), "pod 0, released-volume 2, unprotected-volume 1"; got != want {
		t.Errorf("the metric says %s, want %s", got, want)
	}
	close(events.Events)
	var got []string
	for e := range events.Events {
		got = append(got, e)
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "Warning OrphanFound its storage was to be removed more than an hour ago") ||
		!strings.HasSuffix(got[0], fmt.Sprintf("kubectl annotate pv %s flex-provisioner.io/allow-delete=true", volumeOf(0).Name)) {
		t.Errorf("told:\n%s", strings.Join(got, "\n"))
	}
	events.Events = make(chan string, 10)
	if d.audit(noon.Add(time.Hour)); len(events.Events) != 0 {
		t.Errorf("told again: %s", <-events.Events)
	}
}

// gauges are the values of a metric, each after its last label.
func gauges(t *testing.T, d *Dispatcher, name string) string {
	t.Helper()
	families, err := d.options.Registry.(*prometheus.Registry).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); family.GetName() == name {
				values = append(values, fmt.Sprint(labels[len(labels)-1].GetValue(), " ", m.GetGauge().GetValue()))
			}
		}
	}
	return strings.Join(values, ", ")
}

// TestHeldMetric counts what is held back, by class and reason, as it comes and goes.
func TestHeldMetric(t *testing.T) {
	d := idle(t)
	for _, step := range []struct {
		uid    string
		reason podspec.Reason
		want   string
	}{
		{"a", ReasonHeld, "DeletionHeld 1"},
		{"a", ReasonHeld, "DeletionHeld 1"},
		{"b", ReasonHeld, "DeletionHeld 2"},
		{"a", ReasonStopped, "DeletionHeld 1, DeletionStopped 1"},
		{"a", podspec.ReasonNone, "DeletionHeld 1, DeletionStopped 0"},
		{"c", podspec.ReasonNone, "DeletionHeld 1, DeletionStopped 0"},
		{"b", podspec.ReasonNone, "DeletionHeld 0, DeletionStopped 0"},
	} {
		d.noteHeld(&facts{uid: step.uid, class: "silver"}, step.reason)
		if got := gauges(t, d, "flex_provisioner_held"); got != step.want {
			t.Errorf("after %s %q: %s, want %s", step.uid, step.reason, got, step.want)
		}
	}
	if len(d.guard.held) != 0 {
		t.Errorf("remembers %v", d.guard.held)
	}
}

package controller

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
)

// The metric of pods that have not ended counts no place whose pod was refused.
func TestPodsMetricAfterRefusal(t *testing.T) {
	controller, registry := idle(t)
	running, done := dispatchertest.Pod("prov-0 running", dispatchertest.Noon, dispatchertest.Noon), dispatchertest.Pod("prov-0 done", dispatchertest.Noon, dispatchertest.Noon)
	running.Annotations[contract.AnnClass], done.Annotations[contract.AnnClass] = "silver", "silver"
	controller.podChanged(running, false)
	if _, _, ok := controller.queue.Acquire("silver", uidOf(1), "prov-1", 0, dispatchertest.Noon); !ok {
		t.Fatal("there is no place")
	}
	controller.podChanged(done, false)
	controller.queue.Release("prov-1") // as after an error of the creation
	if got, want := dispatchertest.Gauges(t, registry, "flex_provisioner_pods"), "silver 0"; got != want {
		t.Errorf("the metric says %s, want %s", got, want)
	}
}

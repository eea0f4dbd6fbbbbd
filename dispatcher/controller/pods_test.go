package controller

import (
	"maps"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// The metric of pods that have not ended counts no slot whose pod was refused.
func TestPodsMetricAfterRefusal(t *testing.T) {
	controller, _ := idle(t)
	running, done := dispatchertest.Pod("prov-0 running", dispatchertest.Noon, dispatchertest.Noon), dispatchertest.Pod("prov-0 done", dispatchertest.Noon, dispatchertest.Noon)
	running.Annotations[contract.AnnClass], done.Annotations[contract.AnnClass] = "silver", "silver"
	controller.podChanged(running, false)
	if _, _, ok := controller.queue.Acquire("silver", uidOf(1), "prov-1", 0, dispatchertest.Noon); !ok {
		t.Fatal("there is no slot")
	}

	controller.podChanged(done, false)
	controller.queue.Release("prov-1") // as after an error of the creation
	add(t, controller.Cache.Classes.GetStore().Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "silver"}}))
	if got, want := controller.RunningPods(), map[string]int{"silver": 0}; !maps.Equal(got, want) {
		t.Errorf("the metric says %v, want %v", got, want)
	}
}

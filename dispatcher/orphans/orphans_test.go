package orphans

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// TestAudit: each finding is told by every audit, and the metric says how many there are.
func TestAudit(t *testing.T) {
	registry := prometheus.NewRegistry()
	objects, err := cache.New(kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://192.0.2.1"}), "ns", "p", dispatchertest.Key) // nothing makes a request
	if err != nil {
		t.Fatal(err)
	}

	now := dispatchertest.Noon
	a := Auditor{Provisioner: "p", Cache: objects, Recorder: recorder.New(recorder.NewMetrics(registry), time.Now), Now: func() time.Time { return now }}
	var names []string
	for i := range 2 {
		v := dispatchertest.Volume("fits released")
		v.Name = podspec.VolumeName(fmt.Sprintf("11111111-2222-3333-4444-%012d", i))
		v.UID, v.CreationTimestamp.Time = types.UID(v.Name), now.Add(-48*time.Hour)
		names = append(names, v.Name)
		v.Status.LastPhaseTransitionTime = &metav1.Time{Time: dispatchertest.Noon.Add(-2 * time.Hour)}
		if i == 1 {
			v.Finalizers = nil
		}

		if err := objects.Volumes.GetIndexer().Add(v); err != nil {
			t.Fatal(err)
		}
	}

	start := func(client kubernetes.Interface) func() { return a.Recorder.Start(t.Context(), client) }
	got := apiserver.Noted(start, a.audit)
	if got, want := dispatchertest.Gauges(t, registry, "flex_provisioner_orphans"), "pod 0, released-volume 2, unprotected-volume 1"; got != want {
		t.Errorf("the metric says %s, want %s", got, want)
	}

	slices.Sort(got)
	if len(got) != 3 || !strings.HasPrefix(got[1], "Warning OrphanFound its storage was to be removed more than an hour ago") ||
		!strings.HasSuffix(got[1], fmt.Sprintf("kubectl annotate pv %s flex-provisioner.io/allow-delete=true", names[0])) {
		t.Errorf("told:\n%s", strings.Join(got, "\n"))
	}

	now = now.Add(time.Hour)
	a.Recorder = recorder.New(a.Recorder.Metrics, time.Now)
	if again := apiserver.Noted(start, a.audit); len(again) != 3 {
		t.Errorf("an hour later %q are told again, want all 3", again)
	}
}

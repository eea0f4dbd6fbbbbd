package orphans

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	"github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned/fake"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientfeatures "k8s.io/client-go/features"
	clienttesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// TestAuditOfSnapshots: contents are told of once the objects of snapshots are served.
func TestAuditOfSnapshots(t *testing.T) {
	registry := prometheus.NewRegistry()
	objects, err := cache.New(kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://192.0.2.1"}), "ns", "p", dispatchertest.Key)
	if err != nil {
		t.Fatal(err)
	}

	old := metav1.NewTime(dispatchertest.Noon.Add(-2 * time.Hour))
	byHand := func(name, handle string) *snapshotv1.VolumeSnapshotContent {
		return &snapshotv1.VolumeSnapshotContent{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: old},
			Spec: snapshotv1.VolumeSnapshotContentSpec{Driver: contract.SnapshotDriver("p"), DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
				Source: snapshotv1.VolumeSnapshotContentSource{SnapshotHandle: &handle}}}
	}
	lost, class := byHand("lost", "c"), map[string]string{contract.AnnClass: "silver"}
	lost.Annotations, lost.Spec.VolumeSnapshotRef = class, corev1.ObjectReference{Namespace: "team-a", Name: "daily", UID: "gone"}
	first, second := byHand("first", "a"), byHand("second", "a")
	first.Annotations, second.Annotations = class, class

	a := Auditor{Provisioner: "p", Cache: objects, Recorder: recorder.New(recorder.NewMetrics(registry), time.Now), Now: func() time.Time { return dispatchertest.Noon }}
	clienttesting.SetFeatureDuringTest(t, clientfeatures.WatchListClient, false) // the fake never ends such a list
	err = objects.ServeSnapshots(t.Context(), fake.NewSimpleClientset(lost, first, second, byHand("classless", "b")))
	if err != nil {
		t.Fatal(err)
	}

	got := apiserver.Noted(func(client kubernetes.Interface) func() { return a.Recorder.Start(t.Context(), client) }, a.audit)
	slices.Sort(got)
	want := []string{
		"Warning OrphanFound VolumeSnapshot team-a/daily does not exist any more, and nobody removes the snapshot; to remove or mend it: " +
			"kubectl delete volumesnapshotcontent lost",
		`Warning OrphanFound VolumeSnapshotContent first has the same snapshot "a", which nobody removes while both exist: keep that one ` +
			"alone; to remove or mend it: kubectl patch volumesnapshotcontent second --type=merge -p '{\"spec\": {\"deletionPolicy\": " +
			"\"Retain\"}}' && kubectl delete volumesnapshotcontent second",
		"Warning OrphanFound it was made by hand, and nothing says of which StorageClass its snapshot is, so that it can neither be " +
			"restored nor removed; to remove or mend it: kubectl annotate volumesnapshotcontent classless --overwrite " +
			"flex-provisioner.io/storage-class=CLASS",
	}
	if !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	counted := "pod 0, released-content 1, released-volume 0, twin-content 1, unprotected-volume 0, unrecorded-content 1"
	if got := dispatchertest.Gauges(t, registry, "flex_provisioner_orphans"); got != counted {
		t.Errorf("the metric says %s, want %s", got, counted)
	}
}

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
	if got, want := dispatchertest.Gauges(t, registry, "flex_provisioner_orphans"), "pod 0, released-content 0, released-volume 2, twin-content 0, unprotected-volume 1, unrecorded-content 0"; got != want {
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

package dispatcher

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// idle is a dispatcher that was not started: its caches hold what the test puts into them.
func idle(t *testing.T) *Dispatcher {
	t.Helper()
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://192.0.2.1"}) // New makes no request
	d, err := New(t.Context(), client, Options{ProvisionerName: "p", RecordKey: testKey, Registry: prometheus.NewRegistry(), DeleteLimit: 3,
		SystemNamespace: contract.SystemNamespace, Pods: podspec.Cluster{Namespace: "ns"}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func uidOf(i int) string { return fmt.Sprintf("11111111-2222-3333-4444-%012d", i) }

// volumeOf is the i-th volume, released two days after it was made.
func volumeOf(i int) *corev1.PersistentVolume {
	v := scene{volume: "fits released"}.makeVolume()
	v.Name, v.UID, v.CreationTimestamp.Time = podspec.VolumeName(uidOf(i)), types.UID(fmt.Sprint(i)), noon.Add(-48*time.Hour)
	return v
}

func deletePod(i int, state string) *corev1.Pod {
	pod := makePod("del-0 "+state, noon.Add(-time.Minute), noon)
	pod.Name, pod.UID, pod.Annotations[contract.AnnVolumeUID] = podspec.Name(contract.Delete, uidOf(i), 0), types.UID(fmt.Sprint("pod ", i)), fmt.Sprint(i)
	pod.Labels = map[string]string{contract.LabelClaimUID: uidOf(i), contract.LabelOperation: string(contract.Delete)}
	return pod
}

// TestDoomed counts for a released volume how many of its class are about to go, where three may.
func TestDoomed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(i int, v *corev1.PersistentVolume)
		pods   []int // volumes that have a delete pod
		lately map[int]time.Duration
		others int
		want   int
	}{
		{name: "alone", want: 1},
		{name: "three", others: 2, want: 3},
		{name: "as far as one above the limit", others: 9, want: 4},
		{name: "young ones do not count", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) { v.CreationTimestamp.Time = noon.Add(-23 * time.Hour) }},
		{name: "nor those of other classes", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) { v.Spec.StorageClassName = "gold" }},
		{name: "nor bound ones", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeBound }},
		{name: "nor retained ones", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}},
		{name: "nor those of other provisioners", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "other" }},
		{name: "nor those that may go", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) { v.Annotations[contract.AnnAllowDelete] = "true" }},
		{name: "nor those whose deletion began and fails for long", others: 2, pods: []int{1, 2}, want: 1},
		{name: "deletions of the last hour count, gone or not", others: 1, pods: []int{1}, lately: map[int]time.Duration{1: 10 * time.Minute, 8: 50 * time.Minute, 9: 61 * time.Minute}, want: 3},
		{name: "its own deletion is not counted twice", lately: map[int]time.Duration{0: time.Minute}, want: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := idle(t)
			for i := range c.others {
				v := volumeOf(i + 1)
				if c.change != nil {
					c.change(i+1, v)
				}
				add(t, d.caches.volumes.GetIndexer().Add(v))
			}
			for _, i := range c.pods {
				add(t, d.caches.pods.GetIndexer().Add(deletePod(i, "failed")))
			}
			for i, ago := range c.lately {
				d.guard.order("silver", uidOf(i), noon.Add(-ago))
			}
			f := &facts{now: noon, uid: uidOf(0), class: "silver", volume: volumeOf(0), released: true, deleteLimit: 3}
			if got := d.doomed(f); got != c.want {
				t.Errorf("%d volumes are doomed, want %d", got, c.want)
			}
		})
	}
}

func add(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestVolumeGone: whose storage nobody removed is alarmed about, and nothing else is.
func TestVolumeGone(t *testing.T) {
	const alarm = "Warning StorageLeftBehind the volume is gone, but no pod removed its storage: somebody took its finalizer off; " +
		"look for pvc-11111111-2222-3333-4444-000000000001 on the storage of class silver: flex-provisioner audit"
	for _, c := range []struct {
		name   string
		change func(d *Dispatcher, v *corev1.PersistentVolume)
		want   string
	}{
		{name: "its finalizer was taken off", want: alarm},
		{name: "a delete pod failed", want: alarm, change: func(d *Dispatcher, _ *corev1.PersistentVolume) {
			_ = d.caches.pods.GetIndexer().Add(deletePod(1, "failed"))
		}},
		{name: "a delete pod of an earlier volume succeeded", want: alarm, change: func(d *Dispatcher, v *corev1.PersistentVolume) {
			_ = d.caches.pods.GetIndexer().Add(deletePod(1, "done"))
			v.UID = "later"
		}},
		{name: "a delete pod succeeded", change: func(d *Dispatcher, _ *corev1.PersistentVolume) {
			_ = d.caches.pods.GetIndexer().Add(deletePod(1, "done"))
		}},
		{name: "removed, and the pod is gone", change: func(d *Dispatcher, v *corev1.PersistentVolume) { d.guard.remove(v.UID, noon) }},
		{name: "retained", change: func(_ *Dispatcher, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}},
		{name: "of another provisioner", change: func(_ *Dispatcher, v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "other" }},
		{name: "of a name that no pod makes", change: func(_ *Dispatcher, v *corev1.PersistentVolume) { v.Name = "by-hand" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, events := idle(t), record.NewFakeRecorder(10)
			d.recorder = events
			v := volumeOf(1)
			if c.change != nil {
				c.change(d, v)
			}
			d.volumeGone(v)
			got := ""
			select {
			case got = <-events.Events:
			default:
			}
			if got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

// TestReasonOfStop: the switch's own words reach those who wait, cleaned.
func TestReasonOfStop(t *testing.T) {
	for reason, want := range map[string]string{
		"":                     "ConfigMap ns/stop-deletes stops all deletions",
		"restoring\nlast week": "ConfigMap ns/stop-deletes stops all deletions: restoring last week",
	} {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: contract.StopDeletes}, Data: map[string]string{"reason": reason}}
		if got := stoppedBy(cm); got != want {
			t.Errorf("reason %q: %q, want %q", reason, got, want)
		}
	}
}

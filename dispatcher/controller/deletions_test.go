package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
)

// idle is a controller that was not started: its cache holds what the test puts into it.
func idle(t *testing.T) (*Controller, *prometheus.Registry) {
	t.Helper()
	client, registry := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://192.0.2.1"}), prometheus.NewRegistry() // nothing makes a request
	view, err := cache.New(client, "ns", "p", dispatchertest.Key)
	if err != nil {
		t.Fatal(err)
	}

	return New(Options{ProvisionerName: "p", RecordKey: dispatchertest.Key, DeleteLimit: 3, Workers: 1, Pods: podspec.Cluster{Namespace: "ns"},
		Client: client, Cache: view, Recorder: recorder.New(recorder.NewMetrics(registry), time.Now), Now: time.Now}), registry
}

func uidOf(i int) string { return fmt.Sprintf("11111111-2222-3333-4444-%012d", i) }

// volumeOf is the i-th volume, released two days after it was made.
func volumeOf(i int) *corev1.PersistentVolume {
	v := dispatchertest.Volume("fits released")
	v.Name, v.UID, v.CreationTimestamp.Time = podspec.VolumeName(uidOf(i)), types.UID(fmt.Sprint(i)), dispatchertest.Noon.Add(-48*time.Hour)

	return v
}

func deletePod(i int, state string) *corev1.Pod {
	pod := dispatchertest.Pod("del-0 "+state, dispatchertest.Noon.Add(-time.Minute), dispatchertest.Noon)
	pod.Name, pod.UID, pod.Annotations[contract.AnnVolumeUID] = podspec.Name(contract.Delete, uidOf(i), 0), types.UID(fmt.Sprint("pod ", i)), fmt.Sprint(i)

	return pod
}

// TestCountDeletions counts for a released volume how many of its class are about to go, where three may.
func TestCountDeletions(t *testing.T) {
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
		{name: "young ones do not count", others: 9, want: 1, change: func(_ int, v *corev1.PersistentVolume) {
			v.CreationTimestamp.Time = dispatchertest.Noon.Add(-23 * time.Hour)
		}},
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
			controller, _ := idle(t)
			for i := range c.others {
				v := volumeOf(i + 1)
				if c.change != nil {
					c.change(i+1, v)
				}

				add(t, controller.Cache.Volumes.GetIndexer().Add(v))
			}

			for _, i := range c.pods {
				add(t, controller.Cache.Pods.GetIndexer().Add(deletePod(i, "failed")))
			}

			for i, ago := range c.lately {
				controller.memory.deletionBegan("silver", uidOf(i), dispatchertest.Noon.Add(-ago))
			}

			s := &observed.Claim{Now: dispatchertest.Noon, UID: uidOf(0), ClassName: "silver", Volume: volumeOf(0), DeleteLimit: 3}
			if got := controller.countDeletions(s); got != c.want {
				t.Errorf("%d deletions count, want %d", got, c.want)
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

// TestVolumeDeleted: whose storage nobody removed is alarmed about, and nothing else is.
func TestVolumeDeleted(t *testing.T) {
	const alarm = "Warning StorageLeftBehind the volume is gone, but no pod removed its storage: somebody took its finalizer off; " +
		"look for pvc-11111111-2222-3333-4444-000000000001 on the storage of class silver: kubectl flex audit"
	for _, c := range []struct {
		name   string
		change func(d *Controller, v *corev1.PersistentVolume)
		want   string
	}{
		{name: "its finalizer was taken off", want: alarm},
		{name: "a delete pod failed", want: alarm, change: func(d *Controller, _ *corev1.PersistentVolume) {
			_ = d.Cache.Pods.GetIndexer().Add(deletePod(1, "failed"))
		}},
		{name: "a delete pod of an earlier volume succeeded", want: alarm, change: func(d *Controller, v *corev1.PersistentVolume) {
			_ = d.Cache.Pods.GetIndexer().Add(deletePod(1, "done"))
			v.UID = "later"
		}},
		{name: "a delete pod succeeded", change: func(d *Controller, _ *corev1.PersistentVolume) {
			_ = d.Cache.Pods.GetIndexer().Add(deletePod(1, "done"))
		}},
		{name: "removed, and the pod is gone", change: func(d *Controller, v *corev1.PersistentVolume) { d.memory.storageRemoved(v.UID, dispatchertest.Noon) }},
		{name: "retained", change: func(_ *Controller, v *corev1.PersistentVolume) {
			v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}},
		{name: "of another provisioner", change: func(_ *Controller, v *corev1.PersistentVolume) { v.Annotations[contract.ProvisionedBy] = "other" }},
		{name: "of a name that no pod makes", change: func(_ *Controller, v *corev1.PersistentVolume) { v.Name = "by-hand" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, _ := idle(t)
			v := volumeOf(1)
			if c.change != nil {
				c.change(d, v)
			}

			start := func(client kubernetes.Interface) func() { return d.Recorder.Start(t.Context(), client) }
			got := strings.Join(apiserver.Noted(start, func() { d.volumeDeleted(v) }), "\n")
			if got != c.want {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}

package orphans

import (
	"context"
	"fmt"
	"time"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/audit"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/cache"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// period is the time between two audits. What an audit finds has been so for an hour at least.
const period = time.Hour

// kinds are what can be found without Secrets, the storage and the configuration of classes.
var kinds = []audit.Kind{audit.Pod, audit.Released, audit.Unprotected, audit.ReleasedContent, audit.TwinContent,
	audit.UnrecordedContent}

// Auditor audits the caches.
type Auditor struct {
	// Provisioner is the name that the dispatcher serves.
	Provisioner string
	Cache       *cache.Cache
	Recorder    *recorder.Recorder
	// Now is the API server's time.
	Now func() time.Time
}

// Run audits after a while, and then every hour, until ctx ends.
func (a Auditor) Run(ctx context.Context, first time.Duration) {
	for _, kind := range kinds {
		a.Recorder.Metrics.SetOrphans(string(kind), 0)
	}

	timer := time.NewTimer(first)
	defer timer.Stop()

	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			a.audit()
			timer.Reset(period)
		}
	}
}

// audit sets the metric to what is found. It records each finding, and each released volume that no provisioner pod can
// remove. Unlike kubectl flex audit it sees neither Secrets nor the storage.
func (a Auditor) audit() {
	counts := map[audit.Kind]int{}
	state := audit.State{Now: a.Now(), Provisioner: a.Provisioner, Snapshots: a.snapshots()}
	state.Objects = audit.Objects{
		Claims:  cache.All[*corev1.PersistentVolumeClaim](a.Cache.Claims),
		Volumes: cache.All[*corev1.PersistentVolume](a.Cache.Volumes),
		Pods:    cache.All[*corev1.Pod](a.Cache.Pods),
		Saved:   cache.All[*appsv1.ControllerRevision](a.Cache.Saved),
	}

	for _, f := range audit.Compare(state) {
		counts[f.Kind]++
		message := fmt.Sprintf("%s; to remove or mend it: %s", f.Why, f.Command)
		line := append([]any{"kind", f.Kind, "name", f.Name}, keys(f.About)...)
		a.Recorder.Warn(f.About, string(f.Kind), events.ReasonOrphan, message, line...)
	}

	for _, v := range cache.All[*corev1.PersistentVolume](a.Cache.Volumes) {
		if _, ours := podspec.ClaimUIDOf(v.Name); !ours && v.Annotations[contract.ProvisionedBy] == a.Provisioner &&
			observed.AwaitsDeletion(v) {
			a.Recorder.Warn(v, "", events.ReasonNotOurs, events.NotOurs, "volume", v.Name)
		}
	}

	for _, kind := range kinds {
		a.Recorder.Metrics.SetOrphans(string(kind), counts[kind])
	}
}

// snapshots are the objects of snapshots, nil where they are not served.
func (a Auditor) snapshots() *audit.Snapshots {
	if !a.Cache.ServesSnapshots() {
		return nil
	}

	requests, contents, _ := a.Cache.SnapshotHandlers()

	return &audit.Snapshots{
		Requests: cache.All[*snapshotv1.VolumeSnapshot](requests),
		Contents: cache.All[*snapshotv1.VolumeSnapshotContent](contents),
	}
}

// keys are those of a log line about a volume, a pod or a content.
func keys(object runtime.Object) []any {
	switch o := object.(type) {
	case *corev1.PersistentVolume:
		uid, _ := podspec.ClaimUIDOf(o.Name)
		return recorder.Subject{UID: uid, Class: podspec.ClassOf(o), Volume: o}.Keys(nil)
	case *snapshotv1.VolumeSnapshotContent:
		about := recorder.Subject{UID: observed.ContentKey(o), Class: observed.ClassOfContent(o)}
		return about.Keys(nil)
	case *corev1.Pod:
		_, uid, _, _ := podspec.ParseName(o.Name)
		return recorder.Subject{UID: uid, Class: o.Annotations[contract.AnnClass]}.Keys(o)
	}

	return recorder.Subject{}.Keys(nil)
}

package dispatcher

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// guard remembers what the limit on deletions and its metric need. It is memory only: after a restart the limit counts
// the volumes that wait, which are all that are there, and forgets those that are gone.
type guard struct {
	mu sync.Mutex
	// ordered are the deletions of old volumes that were begun within limitPeriod, by class and claim's UID.
	ordered map[string]map[string]time.Time
	held    map[string]heldBack // by claim's UID
	// removed are the volumes whose storage was removed, and when, so that their objects may go.
	removed map[types.UID]time.Time
}

type heldBack struct {
	class  string
	reason podspec.Reason
}

func newGuard() *guard {
	return &guard{ordered: map[string]map[string]time.Time{}, held: map[string]heldBack{}, removed: map[types.UID]time.Time{}}
}

// order remembers that the deletion of an old volume was begun.
func (g *guard) order(class, uid string, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ordered[class] == nil {
		g.ordered[class] = map[string]time.Time{}
	}
	if _, known := g.ordered[class][uid]; !known {
		g.ordered[class][uid] = now
	}
}

// lately are the UIDs of the class's old volumes whose deletion was begun within limitPeriod.
func (g *guard) lately(class string, now time.Time) map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	uids := map[string]bool{}
	for uid, at := range g.ordered[class] {
		if now.Sub(at) >= limitPeriod {
			delete(g.ordered[class], uid)
			continue
		}
		uids[uid] = true
	}
	return uids
}

// remove remembers that the storage of the volume is gone. The object follows within seconds.
func (g *guard) remove(volume types.UID, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.removed[volume] = now
}

// gone forgets a volume whose object is gone, and says whether its storage was removed before.
func (g *guard) gone(volume types.UID) (removed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, removed = g.removed[volume]
	delete(g.removed, volume)
	return removed
}

// expire forgets deletions that no limit counts any more, and volumes whose end was heard of before their removal was noted.
func (g *guard) expire(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	over := func(at time.Time) bool { return now.Sub(at) >= limitPeriod }
	for class, uids := range g.ordered {
		maps.DeleteFunc(uids, func(_ string, at time.Time) bool { return over(at) })
		if len(uids) == 0 {
			delete(g.ordered, class)
		}
	}
	maps.DeleteFunc(g.removed, func(_ types.UID, at time.Time) bool { return over(at) })
}

// hold notes whether the UID's storage is held back, and returns what that was before.
func (g *guard) hold(uid string, now heldBack) (before heldBack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before = g.held[uid]
	if g.held[uid] = now; now.reason == podspec.ReasonNone {
		delete(g.held, uid)
	}
	return before
}

// noteHeld keeps the metric of what is held back.
func (d *Dispatcher) noteHeld(f *facts, reason podspec.Reason) {
	now := heldBack{class: f.class, reason: reason}
	before := d.guard.hold(f.uid, now)
	if before == now || before.reason == now.reason {
		return
	}
	if before.reason != podspec.ReasonNone {
		d.metrics.held.WithLabelValues(before.class, string(before.reason)).Dec()
	}
	if now.reason != podspec.ReasonNone {
		d.metrics.held.WithLabelValues(now.class, string(now.reason)).Inc()
	}
}

// gatherGuard adds what may speak against removing storage.
func (d *Dispatcher) gatherGuard(f *facts) {
	f.stopped = d.stopped()
	if f.volume == nil || !f.released {
		return
	}
	if ref := f.volume.Spec.ClaimRef; ref != nil {
		if obj, ok, _ := d.caches.claims.GetStore().GetByKey(ref.Namespace + "/" + ref.Name); ok && obj.(*corev1.PersistentVolumeClaim).UID != ref.UID {
			f.heir = obj.(*corev1.PersistentVolumeClaim)
		}
	}
	f.deleteLimit = d.options.DeleteLimit
	if f.config != nil && f.config.DeleteLimit != nil {
		f.deleteLimit = *f.config.DeleteLimit
	}
	if f.deleteLimit > 0 && old(f.volume, f.now) {
		f.doomed = d.doomed(f)
	}
}

// doomed counts the class's old volumes that wait to be deleted, this one included, and those whose deletion was begun
// within limitPeriod. It stops one above the limit.
func (d *Dispatcher) doomed(f *facts) int {
	lately := d.guard.lately(f.class, f.now)
	delete(lately, f.uid)
	count := len(lately) + 1
	waiting, err := d.caches.volumes.GetIndexer().ByIndex(byDoomedClass, f.class)
	if err != nil {
		panic(err) // there is no such index: newCaches adds it
	}
	for _, obj := range waiting {
		if count > f.deleteLimit {
			break
		}
		v := obj.(*corev1.PersistentVolume)
		if uid, ok := podspec.ClaimUIDOf(v.Name); ok && uid != f.uid && !lately[uid] && old(v, f.now) && !d.begunDelete(uid) {
			count++
		}
	}
	return count
}

// begunDelete says that a delete pod of the claim's volume exists.
func (d *Dispatcher) begunDelete(uid string) bool {
	return slices.ContainsFunc(d.podsOf(uid), func(pod *corev1.Pod) bool {
		return pod.Labels[contract.LabelOperation] == string(contract.Delete)
	})
}

// podsOf are the pods of a claim that the cache knows.
func (d *Dispatcher) podsOf(uid string) []*corev1.Pod {
	list, err := d.caches.pods.GetIndexer().ByIndex(byClaimUID, uid)
	if err != nil {
		panic(err) // there is no such index: newCaches adds it
	}
	pods := make([]*corev1.Pod, len(list))
	for i, obj := range list {
		pods[i] = obj.(*corev1.Pod)
	}
	return pods
}

// stopped says, for all who wait, that an administrator stopped all deletions; empty where nobody did.
func (d *Dispatcher) stopped() string {
	obj, ok, _ := d.caches.stop.GetStore().GetByKey(d.cluster.Namespace + "/" + contract.StopDeletes)
	if !ok {
		return ""
	}
	return stoppedBy(obj.(*corev1.ConfigMap))
}

func stoppedBy(cm *corev1.ConfigMap) string {
	why := fmt.Sprintf("ConfigMap %s/%s stops all deletions", cm.Namespace, cm.Name)
	if reason := podspec.Clean(cm.Data["reason"]); reason != "" {
		why += ": " + reason
	}
	return why
}

// confirmStop asks the API server itself: a backup of etcd that was taken while deletions were stopped is restored under
// a dispatcher whose cache is of the time before.
func (d *Dispatcher) confirmStop(ctx context.Context, f *facts) error {
	cm, err := d.client.CoreV1().ConfigMaps(d.cluster.Namespace).Get(ctx, contract.StopDeletes, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.stopped = ""
	case err != nil:
		return fmt.Errorf("get configmap %s/%s: %w", d.cluster.Namespace, contract.StopDeletes, err)
	default:
		f.stopped = stoppedBy(cm)
	}
	return nil
}

// stopChanged tells of the switch and lets everything look again.
func (d *Dispatcher) stopChanged(obj any, deleted bool) {
	cm := obj.(*corev1.ConfigMap)
	d.metrics.stopped.Set(1)
	if deleted {
		d.metrics.stopped.Set(0)
		d.configs.forget(cm.Name)
		d.log.Info("Deletions go on", "configMap", cm.Namespace+"/"+cm.Name)
	} else {
		d.tellConfigOnce(cm, ReasonStopped, fmt.Sprintf("no storage is removed while this ConfigMap exists; to go on: kubectl -n %s delete configmap %s", cm.Namespace, cm.Name))
	}
	d.lanes.pokeAll()
}

// volumeGone alarms where a volume's object went before its storage did. The object's finalizer prevents that, unless
// somebody takes it off.
func (d *Dispatcher) volumeGone(v *corev1.PersistentVolume) {
	removed := d.guard.gone(v.UID)
	uid, ours := podspec.ClaimUIDOf(v.Name)
	if removed || !ours || v.Annotations[contract.ProvisionedBy] != d.options.ProvisionerName ||
		v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete || d.provedGone(uid, v.UID) {
		return
	}
	class := v.Spec.StorageClassName
	d.metrics.failures.WithLabelValues(class, string(ReasonLeft)).Inc()
	d.recorder.Eventf(v, corev1.EventTypeWarning, string(ReasonLeft),
		"the volume is gone, but no pod removed its storage: somebody took its finalizer off; look for %s on the storage of class %s: flex-provisioner audit", v.Name, class)
	d.log.Info("Reported", "reason", ReasonLeft, "PV", v.Name, "StorageClass", class)
	d.endClass(class) // the volume may have been the first that was heard of a class that is gone
}

// provedGone says that a delete pod of the volume has succeeded.
func (d *Dispatcher) provedGone(uid string, volume types.UID) bool {
	return slices.ContainsFunc(d.podsOf(uid), func(pod *corev1.Pod) bool {
		return pod.Annotations[contract.AnnVolumeUID] == string(volume) && podspec.OutcomeOf(pod).Phase == podspec.Succeeded
	})
}

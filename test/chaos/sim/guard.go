package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// What keeps storage from being removed, judged by what is true when a delete pod is created.

// decided is how long before a pod arrives it may have been decided: what the dispatcher read is 10 s old at most, and the request
// takes its time.
const decided = 15 * time.Second

// stopDeletes sets the switch that stops all deletions.
func (w *World) stopDeletes(long time.Duration) {
	w.create(apiserver.ConfigMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: contract.StopDeletes}, Data: map[string]string{"reason": "a test of the switch"}})
	w.set(func() { w.stoppedSince = time.Now() })
	time.AfterFunc(long, w.allowDeletes)
}

func (w *World) allowDeletes() {
	if w.over.Load() {
		return
	}
	w.set(func() { w.stoppedSince = time.Time{} })
	w.remove("admin", apiserver.ConfigMaps, namespace, contract.StopDeletes)
}

// policyChanged hears of volumes, under the server's lock.
func (w *World) policyChanged(name string, after apiserver.Object) {
	v, ok := after.(*corev1.PersistentVolume)
	w.set(func() {
		switch since := w.retained[name]; {
		case !ok || v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain:
			delete(w.retained, name)
		case since.IsZero():
			w.retained[name] = time.Now()
		}
	})
}

// ordered checks a delete pod that a dispatcher has just created.
func (w *World) ordered(dispatcher string, pod *corev1.Pod) {
	name := podspec.VolumeName(pod.Labels[contract.LabelClaimUID])
	v, ok := w.volume(name)
	w.mu.Lock()
	stopped, retained, bound := w.stoppedSince, w.retained[name], w.everBound[name]
	w.mu.Unlock()
	if !stopped.IsZero() && time.Since(stopped) > decided {
		w.violate("%s creates %s, %s after all deletions were stopped", dispatcher, pod.Name, time.Since(stopped))
	}
	if !ok || string(v.UID) != pod.Annotations[contract.AnnVolumeUID] {
		return
	}
	if bound && !retained.IsZero() && time.Since(retained) > decided {
		w.violate("%s creates %s, %s after its volume was to be retained", dispatcher, pod.Name, time.Since(retained))
	}
	if v.Annotations[contract.AnnAllowDelete] != "" {
		return
	}
	if podspec.Restored(v) {
		w.violate("%s creates %s, whose volume was restored from a backup, and nobody allowed that", dispatcher, pod.Name)
	}
	config, _, _ := strings.Cut(pod.Annotations[contract.AnnConfig], "/")
	w.countOld(dispatcher, pod.Annotations[contract.AnnClass], w.plan.class(config).DeleteLimit, v)
}

// countOld counts the deletes of old volumes that one dispatcher orders within an hour. class is the one that the dispatcher knows the
// claim by: an image may have written another one into the volume. limit is that of the ConfigMap that the pod was made from, which is the
// one that made the volume where the class has neither a StorageClass nor a ConfigMap any more. A volume that has just grown old may have
// been read before.
func (w *World) countOld(dispatcher, class string, limit int, v *corev1.PersistentVolume) {
	w.mu.Lock()
	aged := w.aged[v.Name]
	w.mu.Unlock()
	if limit == 0 || !old(v) || time.Since(aged) < decided {
		return
	}
	key, within := dispatcher+" "+class, 0
	w.set(func() {
		if w.oldDeletes[key] == nil {
			w.oldDeletes[key] = map[string]time.Time{}
		}
		w.oldDeletes[key][v.Name] = time.Now()
		for _, at := range w.oldDeletes[key] {
			if time.Since(at) < time.Hour {
				within++
			}
		}
	})
	if within > limit {
		w.violate("%s orders the deletion of %s, old volume number %d of class %s within an hour, whose limit is %d", dispatcher, v.Name, within, class, limit)
	}
}

// allowHeld is the administrator who looks, once everything is mended, at what is not removed, and allows it.
func (w *World) allowHeld() {
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		if v.Annotations[contract.AnnAllowDelete] == "" && (isForeign(v) || v.Status.Phase == corev1.VolumeReleased && (podspec.Restored(v) || old(v))) {
			w.trace.add("admin", "allows the deletion of %s", v.Name)
			w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) { setAnnotation(o, contract.AnnAllowDelete, "true") })
		}
	}
	for _, pod := range apiserver.List[*corev1.Pod](w.server, apiserver.Pods) {
		held := func(e string) bool { return strings.HasPrefix(e, "DeletionHeld: ") }
		if pod.Annotations[contract.AnnAllowDelete] == "" && slices.ContainsFunc(w.eventsOf(string(pod.UID)), held) {
			w.trace.add("admin", "allows the removal of what %s made", pod.Name)
			w.server.Mutate(apiserver.Pods, pod.Namespace, pod.Name, func(o apiserver.Object) { setAnnotation(o, contract.AnnAllowDelete, "true") })
		}
	}
	w.later(time.Minute, 2*time.Minute, w.allowHeld, "admin", "allows")
}

func old(v *corev1.PersistentVolume) bool { return time.Since(v.CreationTimestamp.Time) > 24*time.Hour }

// age makes all volumes older by more than a day that nothing happens to.
func (w *World) age() {
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		if old(v) || podspec.Restored(v) || len(w.podsOf(uidOf(v.Name))) > 0 {
			continue
		}
		w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
			o.SetCreationTimestamp(metav1.NewTime(o.GetCreationTimestamp().Add(-25 * time.Hour)))
		})
		w.set(func() { w.aged[v.Name] = time.Now() })
	}
}

// restore loses a bound volume with its claim, and brings back the volume alone, as from a backup, some hours later: others may use
// its storage by then.
func (w *World) restore(v *corev1.PersistentVolume) {
	claim := w.findClaim(uidOf(v.Name))
	if claim == nil || claim.Spec.VolumeName != v.Name || v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil || len(w.podsOf(uidOf(v.Name))) > 0 {
		return
	}
	w.trace.add("admin", "restores %s without its claim", v.Name)
	for _, lost := range []struct {
		resource string
		object   apiserver.Object
	}{{apiserver.Claims, claim}, {apiserver.Volumes, v}} {
		w.server.Mutate(lost.resource, lost.object.GetNamespace(), lost.object.GetName(), func(o apiserver.Object) { o.SetFinalizers(nil) })
		w.remove("admin", lost.resource, lost.object.GetNamespace(), lost.object.GetName())
	}
	back := v.DeepCopy()
	back.ResourceVersion, back.UID = "", ""
	w.create(apiserver.Volumes, back)
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		o.SetCreationTimestamp(metav1.NewTime(time.Now().Add(4 * time.Hour)).Rfc3339Copy())
	})
}

func (w *World) podsOf(uid string) []*corev1.Pod {
	return slices.DeleteFunc(apiserver.List[*corev1.Pod](w.server, apiserver.Pods), func(p *corev1.Pod) bool { return p.Labels[contract.LabelClaimUID] != uid })
}

// refuse lets admission refuse one kind of writes for a while: a webhook does not answer, or forbids.
func (w *World) refuse(a Action, mend func(func())) {
	what := []string{"create pods", "patch pods", "delete pods", "create persistentvolumes", "patch persistentvolumes", "delete persistentvolumes",
		"patch persistentvolumeclaims"}[a.N%7]
	w.trace.add("admin", "lets admission refuse to %s", what)
	w.set(func() { w.refuses[what] = true })
	mend(func() { w.set(func() { delete(w.refuses, what) }) })
}

func (w *World) refusal(r *apiserver.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.refuses[r.Verb+" "+r.Resource] {
		return nil
	}
	if len(r.Named())%2 == 0 {
		return apiserver.Status(403, metav1.StatusReasonForbidden, fmt.Sprintf("admission webhook \"chaos\" denied the request to %s %s", r.Verb, r.Named()))
	}
	return apiserver.Status(500, metav1.StatusReasonInternalError, "Internal error occurred: failed calling webhook \"chaos\": context deadline exceeded")
}

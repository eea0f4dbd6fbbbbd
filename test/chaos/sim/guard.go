package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
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

// stopped is for how long all deletions have been stopped, 0 where they are not.
func (w *World) stopped() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stoppedSince.IsZero() {
		return 0
	}
	return time.Since(w.stoppedSince)
}

func (w *World) allowDeletes() {
	if w.over.Load() {
		return
	}
	w.set(func() { w.stoppedSince = time.Time{} })
	w.remove("admin", apiserver.ConfigMaps, namespace, contract.StopDeletes)
}

// ordered checks a delete pod that a dispatcher has just created.
func (w *World) ordered(dispatcher string, pod *corev1.Pod) {
	w.mu.Lock()
	stopped := w.stoppedSince
	w.mu.Unlock()
	if !stopped.IsZero() && time.Since(stopped) > decided {
		w.violate("%s creates %s, %s after all deletions were stopped", dispatcher, pod.Name, time.Since(stopped))
	}
	volumes := apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes)
	i := slices.IndexFunc(volumes, func(v *corev1.PersistentVolume) bool { return string(v.UID) == pod.Annotations[contract.AnnVolumeUID] })
	if i < 0 {
		return
	}
	v := volumes[i]
	if used, doomed := w.books.doomed(keyOf(v), time.Now()); used && !doomed {
		w.violate("%s creates %s, whose volume a claim has used, and neither was that claim deleted under Delete, nor has anybody allowed it", dispatcher, pod.Name)
	}
	if v.Annotations[contract.AnnAllowDelete] != "" {
		return
	}
	if podspec.Restored(v) {
		w.violate("%s creates %s, whose volume was restored from a backup, and nobody allowed that", dispatcher, pod.Name)
	}
	w.countOld(dispatcher, pod.Annotations[contract.AnnClass], w.madeFrom(pod).DeleteLimit, v)
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

// allowHeld is the administrator who looks, once everything is mended, at what is not removed or served, and does what its events ask for.
// Nobody does anything about what no event names, except for volumes of earlier days.
func (w *World) allowHeld() {
	w.returnTo()
	w.attachments.finish()
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		waits := w.eventsOf(string(v.UID))
		if claim := w.holder(v); claim != nil {
			waits = append(waits, w.eventsOf(string(claim.UID))...)
		}
		switch {
		case w.edited[v.UID] != nil && told(waits, "VolumeRecordInvalid", "VolumeDoesNotFit", "ProvisionerConfigMissing", "ExpansionRefused"):
			w.undoEdits(v)
		case w.edited[v.UID] != nil && told(waits, "VolumeFailedDelete") && !w.hasClass(v):
			// By its class alone a dispatcher knows a volume that has lost its provisioner. Kubernetes says that nobody deletes it.
			w.undoEdits(v)
		case told(waits, "VolumeNotOurs", "VolumeFailedDelete") && !strings.HasPrefix(v.Name, "pvc-"):
			w.setPolicy(v.Name, corev1.PersistentVolumeReclaimRetain)
		case v.Annotations[contract.AnnAllowDelete] != "":
		case isForeign(v) && !isExport(v), told(waits, "DeletionHeld"), v.Status.Phase == corev1.VolumeReleased && (podspec.Restored(v) || old(v)):
			w.trace.add("admin", "allows the deletion of %s", v.Name)
			w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) { setAnnotation(o, contract.AnnAllowDelete, "true") })
		}
	}
	for _, c := range apiserver.List[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims) {
		told := func(reasons ...string) bool { return told(w.eventsOf(string(c.UID)), reasons...) }
		own, made := w.volume("pvc-" + string(c.UID))
		taken := c.Spec.VolumeName == "" && made && !isFor(own, c) && told("VolumeDoesNotFit")
		asks := c.Spec.VolumeName != "" && c.Status.Phase == corev1.ClaimPending
		if taken || asks || told("ClaimLost", "ClaimMisbound", "VolumeMismatch", "FailedBinding") {
			w.remove("user", apiserver.Claims, c.Namespace, c.Name)
		}
	}
	for _, pod := range apiserver.List[*corev1.Pod](w.server, apiserver.Pods) {
		if pod.Annotations[contract.AnnAllowDelete] == "" && told(w.eventsOf(string(pod.UID)), "DeletionHeld") {
			w.answerPod(apiserver.Pods, pod)
		}
	}
	for _, pod := range w.savedPods() {
		if pod.Annotations[contract.AnnAllowDelete] == "" && told(w.eventsOf(string(pod.UID)), "DeletionHeld") {
			w.answerPod(apiserver.Revisions, pod)
		}
	}
	w.later(time.Minute, 2*time.Minute, w.allowHeld, "admin", "allows")
}

func (w *World) hasClass(v *corev1.PersistentVolume) bool {
	_, ok := apiserver.Get[*storagev1.StorageClass](w.server, apiserver.Classes, "", v.Spec.StorageClassName)
	return ok
}

// savedPods are the pods of records, with the labels of these.
func (w *World) savedPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, record := range apiserver.List[*appsv1.ControllerRevision](w.server, apiserver.Revisions) {
		record = record.DeepCopy()
		if _, _, _, ok := podspec.ParseName(record.Name); ok && podspec.DecodeSaved(record) == nil {
			pod := podspec.SavedPod(record)
			pod.Labels = record.Labels
			pods = append(pods, pod)
		}
	}
	return pods
}

// answerPod is for a pod whose attempts came to storage that no volume of its name has: the administrator lets it be removed, or has it
// elsewhere by now.
func (w *World) answerPod(resource string, pod *corev1.Pod) {
	_, uid, _, _ := podspec.ParseName(pod.Name)
	allowed := fmt.Sprint(!w.keptByAdmin(podspec.VolumeName(uid)))
	w.trace.add("admin", "answers %s: %s", pod.Name, allowed)
	w.server.Mutate(resource, namespace, pod.Name, func(o apiserver.Object) { setAnnotation(o, contract.AnnAllowDelete, allowed) })
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

// restore loses a bound volume with its claim, and brings back the volume, as from a backup, some hours later: others may use its storage
// by then. The claim comes back as docs/restore.md says, or not at all.
func (w *World) restore(v *corev1.PersistentVolume, withClaim bool) {
	claim := w.holder(v)
	if w.edited[v.UID] != nil || claim == nil || claim.Spec.VolumeName != v.Name || v.Status.Phase != corev1.VolumeBound || v.DeletionTimestamp != nil || len(w.podsOf(uidOf(v.Name))) > 0 {
		return
	}
	w.trace.add("admin", "restores %s, with its claim: %v", v.Name, withClaim)
	for _, lost := range []struct {
		resource string
		object   apiserver.Object
	}{{apiserver.Claims, claim}, {apiserver.Volumes, v}} {
		w.server.Mutate(lost.resource, lost.object.GetNamespace(), lost.object.GetName(), func(o apiserver.Object) { o.SetFinalizers(nil) })
		w.remove("admin", lost.resource, lost.object.GetNamespace(), lost.object.GetName())
	}
	back := v.DeepCopy()
	back.ResourceVersion, back.UID = "", ""
	if withClaim {
		back.Spec.ClaimRef.UID = ""
	}
	w.books.copied(keyOf(v))
	w.create(apiserver.Volumes, back)
	if withClaim {
		w.createClaimFor(numberOf(claim.Name), v.Name)
	}
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

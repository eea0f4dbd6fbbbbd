package sim

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// unsettled is everything that is not as it must be once the faults are over and time has passed.
func (w *World) unsettled() []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	storage := w.storage()
	volumes := map[string]*corev1.PersistentVolume{}
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		volumes[v.Name] = v
	}
	for _, c := range apiserver.List[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims) {
		v := volumes[c.Spec.VolumeName]
		switch {
		case c.Namespace == namespace: // pods mount it
		case c.DeletionTimestamp != nil:
			say("claim %s is still being deleted", c.Name)
		case c.Spec.VolumeAttributesClassName != nil && c.Spec.VolumeName == "":
			if events := w.eventsOf(string(c.UID)); !told(events, "ClaimRefused") {
				say("claim %s (%s) asks for a VolumeAttributesClass and is not told that it has none; its events: %s", c.Name, c.UID, strings.Join(events, " | "))
			}
		case c.Spec.VolumeName == "":
			say("claim %s (%s) is not bound; its events: %s", c.Name, c.UID, strings.Join(w.eventsOf(string(c.UID)), " | "))
		case v == nil || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != c.UID || c.Status.Phase != corev1.ClaimBound:
			say("claim %s (%s, %s) is bound to %s, which is not there or not its own", c.Name, c.UID, c.Status.Phase, c.Spec.VolumeName)
		case w.plan.Sizes && !w.books.wentBefore(keyOf(v)): // that is what the volume is told
			list = append(list, w.unfit(c, v)...)
		}
	}
	kept := map[string]bool{} // storage that a volume points to
	for _, v := range volumes {
		kept[keyOf(v)] = true
	}
	for _, name := range sorted(volumes) {
		list = append(list, w.strange(volumes[name], storage)...)
	}
	for _, key := range sorted(storage) {
		if name := volumeNameOf(key); kept[key] {
			continue
		} else if volumes[name] == nil && !w.keptByAdmin(name) {
			say("storage %s (%s) is an orphan: it has no volume", key, storage[key])
		} else if v := volumes[name]; v != nil && !w.cameLate(name) { // that goes with the volume
			say("storage %s (%s) is an orphan: volume %s has its storage at %s", key, storage[key], name, keyOf(v))
		}
	}
	if w.snapshots != nil {
		list = append(list, w.unsettledSnapshots()...)
	}
	list = append(list, w.attachments.unsettled()...)
	if w.cinder != nil {
		list = append(list, w.cinder.strangeSecrets(volumes)...)
	}
	for _, pod := range apiserver.List[*corev1.Pod](w.server, apiserver.Pods) {
		if w.expandsNothing(pod) {
			continue
		}
		say("pod %s (%s, finalizers %v, deleted %v) is left", pod.Name, pod.Status.Phase, pod.Finalizers, pod.DeletionTimestamp != nil)
	}
	for _, record := range apiserver.List[*appsv1.ControllerRevision](w.server, apiserver.Revisions) {
		_, uid, _, ok := podspec.ParseName(record.Name)
		if !ok || w.expandsNothing(&corev1.Pod{ObjectMeta: record.ObjectMeta}) {
			continue
		}
		say("the record of pod %s is left; claim %s", record.Name, uid)
	}
	return list
}

// expandsNothing reports whether the pod is to expand storage that went before somebody took its volume. That fails for
// ever. A pod whose outcome has been acted on stays for its log, and goes.
func (w *World) expandsNothing(pod *corev1.Pod) bool {
	op, uid, _, _ := podspec.ParseName(pod.Name)
	v, there := w.volume(podspec.VolumeName(uid))
	return op == contract.Expand && there && w.knownGone(v) && !podspec.Handled(pod)
}

func (w *World) keptByAdmin(volume string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.kept[volume]
}

func (w *World) cameLate(volume string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late[volume]
}

// knownGone reports whether the storage went before somebody took the volume, and an event says so. A volume that an
// administrator imported is made of one that had the event.
func (w *World) knownGone(v *corev1.PersistentVolume) bool {
	said := told(w.eventsOf(string(v.UID)), "StorageMayBeGone") || strings.HasPrefix(v.Name, "imported-")
	return said && w.books.wentBefore(keyOf(v))
}

// strange says what is wrong with a volume that nothing happens to any more.
func (w *World) strange(v *corev1.PersistentVolume, storage map[string]storageState) []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	keeps := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	bound := v.Status.Phase == corev1.VolumeBound
	switch {
	case v.DeletionTimestamp != nil && !bound:
		say("volume %s (%s, finalizers %v) is still being deleted", v.Name, v.Status.Phase, v.Finalizers)
	case !bound && !keeps && (v.Status.Phase != corev1.VolumeAvailable || !w.isFreed(v.Name)):
		say("volume %s is left %s; its events: %s", v.Name, v.Status.Phase, strings.Join(w.eventsOf(string(v.UID)), " | "))
	case bound && w.holder(v) == nil:
		say("volume %s is bound to a claim that is gone", v.Name)
	}
	if s := storage[keyOf(v)]; s != available && !w.keptByAdmin(v.Name) && !isForeign(v) && !w.knownGone(v) {
		say("volume %s (%s) has no storage at %s: it is %q", v.Name, v.Status.Phase, keyOf(v), s)
	}
	return list
}

// isFreed reports whether an administrator or Kubernetes took the volume from its claim, so that it waits for another
// one.
func (w *World) isFreed(volume string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.freed[volume]
}

// told reports whether one of the events has one of the reasons.
func told(events []string, reasons ...string) bool {
	return slices.ContainsFunc(events, func(e string) bool {
		reason, _, _ := strings.Cut(e, ": ")
		return slices.Contains(reasons, reason)
	})
}

// events are all that were written, by object.
func (w *World) events() []string {
	var list []string
	for _, e := range apiserver.List[*corev1.Event](w.server, apiserver.Events) {
		list = append(list, e.InvolvedObject.Name+" "+e.Reason+": "+e.Message)
	}
	return list
}

func (w *World) eventsOf(uid string) []string {
	var list []string
	for _, e := range apiserver.List[*corev1.Event](w.server, apiserver.Events) {
		if string(e.InvolvedObject.UID) == uid {
			list = append(list, e.Reason+": "+e.Message)
		}
	}
	return list
}

package sim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

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
		v := volumes["pvc-"+string(c.UID)]
		switch {
		case c.DeletionTimestamp != nil:
			say("claim %s is still being deleted", c.Name)
		case c.Spec.VolumeAttributesClassName != nil:
			if events := w.eventsOf(string(c.UID)); !slices.ContainsFunc(events, func(e string) bool { return strings.HasPrefix(e, "ClaimRefused: ") }) {
				say("claim %s (%s) asks for a VolumeAttributesClass and is not told that it has none; its events: %s", c.Name, c.UID, strings.Join(events, " | "))
			}
		case c.Spec.VolumeName == "":
			say("claim %s (%s) is not bound; its events: %s", c.Name, c.UID, strings.Join(w.eventsOf(string(c.UID)), " | "))
		case v == nil || v.Spec.ClaimRef.UID != c.UID:
			say("claim %s (%s) is bound to %s, which is not there", c.Name, c.UID, c.Spec.VolumeName)
		case w.plan.Sizes:
			list = append(list, w.unfit(c, v)...)
		}
	}
	for _, name := range sorted(volumes) {
		list = append(list, w.strange(volumes[name], storage)...)
	}
	for _, key := range sorted(storage) {
		if name := volumeNameOf(key); volumes[name] == nil && !w.keptByAdmin(name) {
			say("storage %s (%s) is an orphan: it has no volume", key, storage[key])
		} else if v := volumes[name]; v != nil && keyOf(v) != key && !w.cameLate(name) { // that goes with the volume
			say("storage %s (%s) is an orphan: volume %s has its storage at %s", key, storage[key], name, keyOf(v))
		}
	}
	if w.cinder != nil {
		list = append(list, w.cinder.strangeSecrets(volumes)...)
	}
	for _, pod := range apiserver.List[*corev1.Pod](w.server, apiserver.Pods) {
		say("pod %s (%s, finalizers %v, deleted %v) is left", pod.Name, pod.Status.Phase, pod.Finalizers, pod.DeletionTimestamp != nil)
	}
	return list
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

// strange says what is wrong with a volume that nothing happens to any more.
func (w *World) strange(v *corev1.PersistentVolume, storage map[string]storageState) []string {
	var list []string
	say := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	keeps := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
	bound := v.Status.Phase == corev1.VolumeBound
	switch {
	case v.DeletionTimestamp != nil && !bound:
		say("volume %s (%s, finalizers %v) is still being deleted", v.Name, v.Status.Phase, v.Finalizers)
	case !bound && !keeps:
		say("volume %s is left %s", v.Name, v.Status.Phase)
	case bound && w.findClaim(uidOf(v.Name)) == nil:
		say("volume %s is bound to a claim that is gone", v.Name)
	}
	if s := storage[keyOf(v)]; s != available && !w.keptByAdmin(v.Name) && !isForeign(v) {
		say("volume %s (%s) has no storage at %s: it is %q", v.Name, v.Status.Phase, keyOf(v), s)
	}
	return list
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

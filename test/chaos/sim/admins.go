package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// What administrators do to volumes by hand. Most of it they do to volumes that they retain, and some of it to any.

// administration are the actions of the theme. Users go on creating, enlarging and deleting claims.
var administration = []string{
	"admin-reuse", "admin-reuse", "admin-free", "admin-free", "admin-rebind", "admin-rebind", "admin-handover", "admin-restore", "admin-restore",
	"admin-import", "admin-drop", "admin-class", "admin-capacity", "admin-annotate", "volume-retain", "volume-retain", "volume-unretain",
	"volume-delete", "pod-delete", "config-delete", "class-delete", "dispatcher-away", "dispatcher-kill", "node-dead",
	"claim-create", "claim-create", "claim-delete", "claim-delete", "claim-recreate", "claim-expand",
}

func (w *World) administer(a Action) {
	// Every eighth act is done to a volume for which it is not meant.
	meant := func(is func(*corev1.PersistentVolume) bool) func(*corev1.PersistentVolume) bool {
		return func(v *corev1.PersistentVolume) bool { return a.N%8 == 7 || is(v) }
	}
	other := (a.N / 8) % w.plan.Claims
	switch a.Do {
	case "admin-reuse":
		w.with(a, isBound, func(v *corev1.PersistentVolume) { w.reuse(v, a.N%2 == 0) })
	case "admin-free":
		w.with(a, meant(isRetained), func(v *corev1.PersistentVolume) { w.free(v, a.N%2 == 0) })
	case "admin-rebind":
		w.with(a, meant(isRetained), func(v *corev1.PersistentVolume) { w.rebind(v, other, a.N%3) })
	case "admin-handover":
		w.with(a, isBound, func(v *corev1.PersistentVolume) { w.handOver(v, other) })
	case "admin-restore":
		if a.N%4 == 0 {
			w.with(a, isBound, func(v *corev1.PersistentVolume) { w.restore(v, true) })
			return
		}
		w.with(a, isReleased, w.restoreClaim)
	case "admin-drop":
		w.with(a, meant(w.isUndecided), w.drop)
	case "admin-import":
		w.with(a, w.isUndecided, func(v *corev1.PersistentVolume) { w.reimport(v, a.N, other) })
	case "admin-class":
		w.with(a, meant(isReleased), func(v *corev1.PersistentVolume) {
			class := w.classesLike(v.Spec.StorageClassName)[a.N%(1+len(w.plan.Classes))]
			w.edit(v, "moves it to class "+class, func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = class })
		})
	case "admin-capacity":
		w.with(a, func(*corev1.PersistentVolume) bool { return true }, func(v *corev1.PersistentVolume) { w.resizeByHand(v, a.N) })
	case "admin-annotate":
		w.with(a, func(*corev1.PersistentVolume) bool { return true }, func(v *corev1.PersistentVolume) { w.forge(v, a.N) })
	default:
		panic("unknown action " + a.Do)
	}
}

func isBound(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeBound }

func isReleased(v *corev1.PersistentVolume) bool { return v.Status.Phase == corev1.VolumeReleased }

// isRetained is for volumes that wait for somebody to use them again.
func isRetained(v *corev1.PersistentVolume) bool {
	return !isBound(v) && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain
}

// isUndecided is for volumes whose storage is not about to be removed.
func (w *World) isUndecided(v *corev1.PersistentVolume) bool {
	used, doomed := w.books.doomed(keyOf(v), time.Now())
	return used && !doomed
}

// with does something to one of the volumes that are not other provisioners'.
func (w *World) with(a Action, is func(*corev1.PersistentVolume) bool, do func(*corev1.PersistentVolume)) {
	volumes := slices.DeleteFunc(apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes), func(v *corev1.PersistentVolume) bool {
		return isForeign(v) || v.DeletionTimestamp != nil || !is(v)
	})
	if len(volumes) > 0 {
		do(volumes[a.N%len(volumes)])
	}
}

// edit changes a volume by hand. What it was before is put back at the end if somebody is told of the change.
func (w *World) edit(v *corev1.PersistentVolume, what string, change func(*corev1.PersistentVolume)) {
	w.trace.add("admin", "%s: %s", v.Name, what)
	w.set(func() {
		if w.edited[v.UID] == nil {
			w.edited[v.UID] = v.DeepCopy()
		}
	})
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		if o.GetUID() == v.UID {
			change(o.(*corev1.PersistentVolume))
		}
	})
}

// undoEdits puts back what makes no sense.
func (w *World) undoEdits(v *corev1.PersistentVolume) {
	was := w.edited[v.UID]
	w.trace.add("admin", "undoes what was done to %s", v.Name)
	w.set(func() { delete(w.edited, v.UID); w.said[v.Name] = sizeOf(was) })
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		now := o.(*corev1.PersistentVolume)
		for _, name := range []string{contract.ProvisionedBy, contract.AnnIdentity, contract.AnnConfig, contract.AnnRecord, contract.AnnMadeBefore} {
			setAnnotation(now, name, was.Annotations[name])
		}
		now.Spec.StorageClassName = was.Spec.StorageClassName
		if sizeOf(now) < sizeOf(was) || sizeOf(now) > w.backend.size(keyOf(now)) {
			now.Spec.Capacity = was.Spec.Capacity.DeepCopy()
		}
	})
}

// reuse is the usual way to use a volume again: retain it, delete its claim, and free it once it is released.
func (w *World) reuse(v *corev1.PersistentVolume, whole bool) {
	claim := w.holder(v)
	if claim == nil {
		return
	}
	w.set(func() { w.kept[v.Name] = true })
	w.setPolicy(v.Name, corev1.PersistentVolumeReclaimRetain)
	w.remove("user", apiserver.Claims, claim.Namespace, claim.Name)
	var look func(tries int)
	look = func(tries int) {
		w.later(10*time.Millisecond, 2*time.Second, func() {
			now, ok := w.volume(v.Name)
			switch {
			case !ok || now.UID != v.UID || tries == 0:
			case isReleased(now):
				w.free(now, whole)
			default:
				look(tries - 1)
			}
		}, "admin", "frees", v.Name)
	}
	look(20)
}

// free takes the claim out of a volume, or only its UID.
func (w *World) free(v *corev1.PersistentVolume, whole bool) {
	w.trace.add("admin", "frees %s, all of spec.claimRef: %v", v.Name, whole)
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		now := o.(*corev1.PersistentVolume)
		if now.UID != v.UID || now.Spec.ClaimRef == nil {
			return
		}
		if now.Spec.ClaimRef.UID = ""; whole {
			now.Spec.ClaimRef = nil
		}
		setAnnotation(now, boundByController, "")
		w.set(func() { w.freed[v.Name] = true })
	})
}

// rebind gives a volume to another claim: by the claim's name, by its UID too, or by a claim that asks for the volume.
func (w *World) rebind(v *corev1.PersistentVolume, i, how int) {
	name := claimName(i)
	ref := &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: w.tenantOf(name), Name: name}
	claim, there := w.claim(name)
	switch {
	case how == 2:
		ref = nil
	case how == 1 && there:
		ref = refTo(claim)
	}
	w.trace.add("admin", "gives %s to %v", v.Name, ref)
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		if o.GetUID() == v.UID {
			o.(*corev1.PersistentVolume).Spec.ClaimRef = ref
			w.set(func() { w.freed[v.Name] = true })
		}
	})
	if !there && how == 2 {
		w.createClaimFor(i, v.Name)
	} else if !there {
		w.createClaim(i)
	}
}

// handOver is what importers and populators do: they fill a volume by a claim of their own, give it to the claim that
// waits for it, and delete theirs.
func (w *World) handOver(v *corev1.PersistentVolume, i int) {
	from := w.holder(v)
	if from == nil || from.Name == claimName(i) {
		return
	}
	if _, there := w.claim(claimName(i)); !there {
		w.createClaim(i)
	}
	to, ok := w.claim(claimName(i))
	if !ok || to.Spec.VolumeName != "" || !fits(v, to) {
		return
	}
	w.rebind(v, i, 1)
	w.later(time.Millisecond, 10*time.Second, func() {
		if now, ok := w.claim(from.Name); ok && now.UID == from.UID {
			w.remove("importer", apiserver.Claims, from.Namespace, from.Name)
		}
	}, "importer", v.Name)
}

// restoreClaim makes the claim of a released volume again, and lets the volume be bound to it, as docs/restore.md says.
func (w *World) restoreClaim(v *corev1.PersistentVolume) {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return
	}
	if _, there := w.claim(ref.Name); there {
		return
	}
	w.createClaimFor(numberOf(ref.Name), v.Name)
	w.free(v, false)
}

// drop takes a volume's finalizers off and deletes it. Its storage stays.
func (w *World) drop(v *corev1.PersistentVolume) {
	w.set(func() { w.kept[volumeNameOf(keyOf(v))] = true })
	w.trace.add("admin", "takes the finalizers off %s", v.Name)
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) { o.SetFinalizers(nil) })
	w.remove("admin", apiserver.Volumes, "", v.Name)
}

// reimport deletes a volume, and makes another one of its storage: with the annotations of the first, or bare.
func (w *World) reimport(v *corev1.PersistentVolume, n, i int) {
	if v.Spec.NFS == nil {
		return
	}
	w.drop(v)
	again := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("imported-%d", n)}, Spec: *v.Spec.DeepCopy()}
	if again.Spec.ClaimRef = nil; n%3 == 0 {
		again.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: w.tenantOf(claimName(i)), Name: claimName(i)}
	}
	again.Spec.PersistentVolumeReclaimPolicy = []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimRetain, corev1.PersistentVolumeReclaimDelete}[n%2]
	if n%4 == 0 {
		again.Annotations = v.Annotations
	}
	w.set(func() { w.freed[again.Name] = true })
	w.create(apiserver.Volumes, again)
}

// classesLike are the names to which an administrator moves a volume of a class: classes whose storage is at the same
// place, and one that does not exist.
func (w *World) classesLike(class string) []string {
	names := make([]string, 0, 1+len(w.plan.Classes))
	names = append(names, "gone")
	local := slices.ContainsFunc(w.plan.Classes, func(c Class) bool { return c.Name == class && c.NodeLocal })
	for _, c := range w.plan.Classes {
		if c.NodeLocal != local {
			c.Name = class
		}
		names = append(names, c.Name)
	}
	return names
}

// resizeByHand writes a capacity: of storage that was enlarged by hand, or one that is not true.
func (w *World) resizeByHand(v *corev1.PersistentVolume, n int) {
	if v.Spec.NFS == nil {
		return
	}
	size := sizeOf(v) + int64(1+n%3)<<30
	switch n % 3 {
	case 0:
		size = sizeOf(v) / 2
	case 1:
		w.backend.grow(keyOf(v), size)
	}
	w.set(func() { w.said[v.Name] = size })
	w.edit(v, fmt.Sprintf("says it has %d bytes", size), func(v *corev1.PersistentVolume) {
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	})
}

// forge removes one of the annotations that the dispatcher relies on, or changes it.
func (w *World) forge(v *corev1.PersistentVolume, n int) {
	names := []string{contract.ProvisionedBy, contract.AnnIdentity, contract.AnnRecord, contract.AnnMadeBefore}
	name, value := names[n%len(names)], ""
	if n%3 == 0 {
		name, value = contract.AnnIdentity, `{"properties":{"zone":"forged"},"parameters":{"pool":"forged"}}`
	}
	if name == contract.AnnIdentity && value == "" {
		w.set(func() { w.kept[v.Name] = true }) // which says that the storage is where the class has its storage, then and later
	}
	w.edit(v, strings.TrimSpace("annotates "+name+" "+value), func(v *corev1.PersistentVolume) { setAnnotation(v, name, value) })
}

package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// The binder does what kube-controller-manager's does for claims and volumes, as far as it concerns an external
// provisioner: pv_controller.go, pvc_protection_controller.go, pv_protection_controller.go. Whoever made a volume, and whatever
// administrators do to it, is none of its business.

func (w *World) claim(name string) (*corev1.PersistentVolumeClaim, bool) {
	return apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, w.tenantOf(name), name)
}

func (w *World) volume(name string) (*corev1.PersistentVolume, bool) {
	return apiserver.Get[*corev1.PersistentVolume](w.server, apiserver.Volumes, "", name)
}

// resync looks at every claim and volume now and then, as the real one does every 15 s.
func (w *World) resync() {
	for _, c := range apiserver.List[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims) {
		w.syncClaim(c.Name)
	}
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		w.syncVolume(v.Name)
	}
	if w.snapshots != nil {
		w.snapshots.controller().SyncAll()
	}
	if w.attachments != nil {
		w.attachments.sync()
	}
	w.later(15*time.Second, 16*time.Second, w.resync, "binder", "resync")
}

const (
	selectedNode       = "volume.kubernetes.io/selected-node"
	storageProvisioner = "volume.kubernetes.io/storage-provisioner"
	bindCompleted      = "pv.kubernetes.io/bind-completed"
	boundByController  = "pv.kubernetes.io/bound-by-controller"
)

func (w *World) syncClaim(name string) {
	claim, ok := w.claim(name)
	switch {
	case !ok:
	case claim.Annotations[bindCompleted] != "":
		w.syncBoundClaim(claim)
	case claim.Spec.VolumeName != "":
		w.syncAskingClaim(claim)
	default:
		w.syncUnboundClaim(claim)
	}
}

// syncBoundClaim is for a claim that was bound: its volume may be gone, unbound, or given to another one since.
func (w *World) syncBoundClaim(claim *corev1.PersistentVolumeClaim) {
	v, ok := w.volume(claim.Spec.VolumeName)
	switch {
	case !ok:
		w.lose(claim, "ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!")
	case v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != claim.UID:
		w.lose(claim, "ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
	case v.Spec.ClaimRef == nil || v.Status.Phase != corev1.VolumeBound || claim.Status.Phase != corev1.ClaimBound:
		w.bind(claim, v)
	}
}

func (w *World) lose(claim *corev1.PersistentVolumeClaim, reason, message string) {
	if claim.Status.Phase == corev1.ClaimLost {
		return
	}
	w.trace.add("binder", "%s is lost: %s", claim.Name, reason)
	w.server.Mutate(apiserver.Claims, claim.Namespace, claim.Name, func(o apiserver.Object) {
		if c := o.(*corev1.PersistentVolumeClaim); c.UID == claim.UID {
			c.Status.Phase, c.Status.Capacity, c.Status.AccessModes = corev1.ClaimLost, nil, nil
		}
	})
	w.tell("PersistentVolumeClaim", claim, reason, message)
}

// tell writes an event of Kubernetes' own, once.
func (w *World) tell(kind string, o apiserver.Object, reason, message string) {
	namespace := o.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	name := fmt.Sprintf("%s.%s.%s", o.GetName(), o.GetUID(), strings.ToLower(reason))
	_, _ = w.server.Create(apiserver.Events, &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		Type:           corev1.EventTypeWarning, Reason: reason, Message: message, LastTimestamp: metav1.Now().Rfc3339Copy()})
}

// syncAskingClaim is for a claim that asks for a volume by its name.
func (w *World) syncAskingClaim(claim *corev1.PersistentVolumeClaim) {
	v, ok := w.volume(claim.Spec.VolumeName)
	switch {
	case !ok: // it waits
	case v.Spec.ClaimRef == nil && (!fits(v, claim) || v.Spec.StorageClassName != *claim.Spec.StorageClassName):
		w.tell("PersistentVolumeClaim", claim, "VolumeMismatch", "Cannot bind to requested volume \""+v.Name+"\"")
	case v.Spec.ClaimRef == nil || isFor(v, claim):
		w.bind(claim, v)
	default:
		w.tell("PersistentVolumeClaim", claim, "FailedBinding", "volume \""+v.Name+"\" already bound to a different claim.")
	}
}

func (w *World) syncUnboundClaim(claim *corev1.PersistentVolumeClaim) {
	name := claim.Name
	class, ok := apiserver.Get[*storagev1.StorageClass](w.server, apiserver.Classes, "", *claim.Spec.StorageClassName)
	delayed := ok && class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	if v := w.match(claim, func(*corev1.PersistentVolume) bool { return !delayed }); v != nil {
		w.bind(claim, v)
		return
	}
	if !ok || delayed && claim.Annotations[selectedNode] == "" {
		return
	}
	if claim.Annotations[storageProvisioner] != class.Provisioner {
		w.trace.add("binder", "asks for a volume for %s (%s)", name, claim.UID)
		w.server.Mutate(apiserver.Claims, w.tenantOf(name), name, func(o apiserver.Object) { setAnnotation(o, storageProvisioner, class.Provisioner) })
	}
	if class.Provisioner == foreign {
		w.later(time.Second, 10*time.Second, func() { w.serveForeign(claim) }, foreign, name)
	}
}

// match is FindMatchingVolume: the volume that is for the claim, whatever its class, or else the smallest of those of its class that are
// available and may be taken. No volume here has a VolumeAttributesClass.
func (w *World) match(claim *corev1.PersistentVolumeClaim, may func(*corev1.PersistentVolume) bool) *corev1.PersistentVolume {
	var smallest *corev1.PersistentVolume
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		switch {
		case !fits(v, claim):
		case isFor(v, claim):
			return v
		case v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable && v.Spec.StorageClassName == *claim.Spec.StorageClassName && may(v) &&
			(smallest == nil || sizeOf(v) < sizeOf(smallest)):
			smallest = v
		}
	}
	return smallest
}

// isFor is IsVolumeBoundToClaim: the volume names the claim, or one of its name.
func isFor(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Name == claim.Name && ref.Namespace == claim.Namespace && (ref.UID == "" || ref.UID == claim.UID)
}

func fits(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	asked, made := claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
	modes := !slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(v.Spec.AccessModes, m)
	})
	return made.Cmp(asked) >= 0 && modes && claim.Spec.VolumeAttributesClassName == nil && v.DeletionTimestamp == nil && *v.Spec.VolumeMode == *claim.Spec.VolumeMode
}

// bind writes the volume first and then the claim, with time for others in between. A busy controller-manager comes to it late.
func (w *World) bind(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
	if w.faulty() && w.dice.chance(w.plan.Rates["binder-slow"], "binder-slow", claim.Name) {
		w.drawn("binder-slow")
		w.later(time.Second, time.Minute, func() { w.syncClaim(claim.Name) }, "binder", "late", claim.Name)
		return
	}
	w.binding(v)
	if w.snapshots != nil {
		w.snapshots.bound(claim, v)
	}
	if !w.claimVolume(v, claim) {
		return
	}
	w.books.use(keyOf(v), claim.UID)
	w.trace.add("binder", "binds %s to %s", v.Name, claim.Name)
	w.phase(v, corev1.VolumeBound)
	w.later(time.Millisecond, 20*time.Millisecond, func() {
		w.server.Mutate(apiserver.Claims, w.tenantOf(claim.Name), claim.Name, func(o apiserver.Object) {
			c := o.(*corev1.PersistentVolumeClaim)
			if c.UID != claim.UID || c.Spec.VolumeName != "" && c.Spec.VolumeName != v.Name {
				return
			}
			if w.plan.Sizes && c.Status.Phase != corev1.ClaimBound {
				c.Status.Capacity, c.Status.AccessModes = v.Spec.Capacity.DeepCopy(), v.Spec.AccessModes
			}
			c.Spec.VolumeName, c.Status.Phase = v.Name, corev1.ClaimBound
			setAnnotation(c, bindCompleted, "yes")
		})
	}, "binder", "claim", claim.Name)
}

// claimVolume writes the claim into the volume, unless somebody has changed that meanwhile.
func (w *World) claimVolume(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) (done bool) {
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		now := o.(*corev1.PersistentVolume)
		if now.UID != v.UID || now.Spec.ClaimRef != nil && !isFor(now, claim) {
			return
		}
		if done = true; now.Spec.ClaimRef == nil {
			setAnnotation(now, boundByController, "yes")
		}
		if now.Spec.ClaimRef == nil || now.Spec.ClaimRef.UID == "" {
			now.Spec.ClaimRef = refTo(claim)
		}
	})
	return done
}

func refTo(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
}

func (w *World) syncVolume(name string) {
	v, ok := w.volume(name)
	if !ok {
		return
	}
	if v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound {
		w.later(time.Millisecond, time.Second, func() { w.unprotectVolume(name) }, "protection", "volume", name)
	}
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		w.phase(v, corev1.VolumeAvailable)
		return
	}
	claim, ok := apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, ref.Namespace, ref.Name)
	switch dynamic := v.Annotations[contract.ProvisionedBy] != "" && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete; {
	case !ok || claim.UID != ref.UID:
		w.release(v)
	case claim.Spec.VolumeName == "":
		w.syncClaim(claim.Name)
	case claim.Spec.VolumeName == name:
		w.phase(v, corev1.VolumeBound)
	case dynamic:
		w.release(v)
	default:
		w.unbind(v)
	}
}

// release is for a volume whose claim is gone or has another volume. What no other provisioner is to delete, kube-controller-manager deletes
// itself: it has no deleter for the kinds of volumes here.
func (w *World) release(v *corev1.PersistentVolume) {
	if v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
		w.trace.add("binder", "releases %s", v.Name)
		w.phase(v, corev1.VolumeReleased)
	}
	switch {
	case v.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete:
	case isForeign(v) && v.DeletionTimestamp == nil:
		w.later(time.Second, 5*time.Second, func() { w.remove(foreign, apiserver.Volumes, "", v.Name) }, foreign, v.Name)
	case v.Annotations[contract.ProvisionedBy] == "" && v.Spec.CSI == nil && v.Status.Phase != corev1.VolumeFailed:
		w.trace.add("binder", "finds no deleter for %s", v.Name)
		w.phase(v, corev1.VolumeFailed)
		w.tell("PersistentVolume", v, "VolumeFailedDelete", "error getting deleter volume plugin for volume \""+v.Name+"\": no deletable volume plugin matched")
	}
}

// unbind takes the claim out of a volume, or where somebody else had written it its UID.
func (w *World) unbind(v *corev1.PersistentVolume) {
	w.trace.add("binder", "unbinds %s", v.Name)
	w.set(func() { w.freed[v.Name] = true })
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		now := o.(*corev1.PersistentVolume)
		switch {
		case now.UID != v.UID || now.Spec.ClaimRef == nil:
		case now.Annotations[boundByController] != "":
			now.Spec.ClaimRef = nil
			setAnnotation(now, boundByController, "")
		default:
			now.Spec.ClaimRef.UID = ""
		}
	})
	w.phase(v, corev1.VolumeAvailable)
}

func (w *World) phase(v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) {
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		if o.GetUID() == v.UID {
			o.(*corev1.PersistentVolume).Status.Phase = phase
		}
	})
}

func (w *World) unprotectClaim(name string) {
	if w.attachments.uses(name) {
		w.later(time.Second, 3*time.Second, func() { w.unprotectClaim(name) }, "protection", "used", name)
		return
	}
	w.server.Mutate(apiserver.Claims, w.tenantOf(name), name, func(o apiserver.Object) {
		if o.GetDeletionTimestamp() != nil {
			dropFinalizer(o, "kubernetes.io/pvc-protection")
		}
	})
}

func (w *World) unprotectVolume(name string) {
	w.server.Mutate(apiserver.Volumes, "", name, func(o apiserver.Object) {
		if o.GetDeletionTimestamp() != nil && o.(*corev1.PersistentVolume).Status.Phase != corev1.VolumeBound {
			dropFinalizer(o, "kubernetes.io/pv-protection")
		}
	})
}

func dropFinalizer(o metav1.Object, name string) {
	o.SetFinalizers(slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == name }))
}

// scheduleClaim is the scheduler's part for claims that wait for their consumer.
func (w *World) scheduleClaim(name string) {
	claim, ok := w.claim(name)
	if !ok || claim.Annotations[selectedNode] != "" || claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil {
		return
	}
	class, ok := apiserver.Get[*storagev1.StorageClass](w.server, apiserver.Classes, "", *claim.Spec.StorageClassName)
	if ok && *class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		return
	}
	ready := w.readyNodes()
	if !ok || len(ready) == 0 {
		w.later(time.Second, 5*time.Second, func() { w.scheduleClaim(name) }, "scheduler", "claim", name)
		return
	}
	n := ready[w.dice.roll("scheduler", "choice", name).IntN(len(ready))]
	if v := w.match(claim, n.reaches); v != nil {
		w.trace.add("scheduler", "takes %s for %s", v.Name, name)
		w.claimVolume(v, claim)
		return
	}
	w.trace.add("scheduler", "chooses %s for %s", n.name, name)
	w.server.Mutate(apiserver.Claims, w.tenantOf(name), name, func(o apiserver.Object) { setAnnotation(o, selectedNode, n.name) })
}

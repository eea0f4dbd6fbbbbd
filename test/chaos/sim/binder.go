package sim

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// The binder does what kube-controller-manager's does for claims and volumes, as far as it concerns an external
// provisioner: pv_controller.go, pvc_protection_controller.go, pv_protection_controller.go.

func (w *World) claim(name string) (*corev1.PersistentVolumeClaim, bool) {
	return apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, w.tenantOf(name), name)
}

func (w *World) volume(name string) (*corev1.PersistentVolume, bool) {
	return apiserver.Get[*corev1.PersistentVolume](w.server, apiserver.Volumes, "", name)
}

// resync looks at every claim and volume now and then, as the real one does every 15 s.
func (w *World) resync() {
	for _, c := range apiserver.List[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims) {
		if c.Status.Phase != corev1.ClaimBound {
			w.syncClaim(c.Name)
		}
	}
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		if v.Status.Phase != corev1.VolumeBound {
			w.syncVolume(v.Name)
		}
	}
	w.later(15*time.Second, 16*time.Second, w.resync, "binder", "resync")
}

func (w *World) syncClaim(name string) {
	claim, ok := w.claim(name)
	if !ok || claim.Annotations["pv.kubernetes.io/bind-completed"] != "" {
		return
	}
	if v := w.match(claim); v != nil {
		w.bind(claim, v)
		return
	}
	class, ok := apiserver.Get[*storagev1.StorageClass](w.server, apiserver.Classes, "", *claim.Spec.StorageClassName)
	if !ok || class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer && claim.Annotations[selectedNode] == "" {
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

const (
	selectedNode       = "volume.kubernetes.io/selected-node"
	storageProvisioner = "volume.kubernetes.io/storage-provisioner"
)

// match is FindMatchingVolume for a volume that was made for the claim. It does not compare the class, and no volume here has a
// VolumeAttributesClass.
func (w *World) match(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		ref := v.Spec.ClaimRef
		if ref == nil || ref.Name != claim.Name || ref.Namespace != claim.Namespace || ref.UID != "" && ref.UID != claim.UID {
			continue
		}
		asked, made := claim.Spec.Resources.Requests[corev1.ResourceStorage], v.Spec.Capacity[corev1.ResourceStorage]
		modes := !slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return !slices.Contains(v.Spec.AccessModes, m)
		})
		if made.Cmp(asked) >= 0 && modes && claim.Spec.VolumeAttributesClassName == nil && v.DeletionTimestamp == nil && *v.Spec.VolumeMode == *claim.Spec.VolumeMode {
			return v
		}
	}
	return nil
}

// bind writes the volume's phase first and then the claim, with time for others in between. A busy controller-manager comes
// to it late.
func (w *World) bind(claim *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
	if w.faulty() && w.dice.chance(w.plan.Rates["binder-slow"], "binder-slow", claim.Name) {
		w.drawn("binder-slow")
		w.later(time.Second, time.Minute, func() { w.syncClaim(claim.Name) }, "binder", "late", claim.Name)
		return
	}
	w.binding(v)
	w.set(func() { w.everBound[v.Name] = true })
	w.trace.add("binder", "binds %s to %s", v.Name, claim.Name)
	w.server.Mutate(apiserver.Volumes, "", v.Name, func(o apiserver.Object) {
		if o.GetUID() == v.UID {
			o.(*corev1.PersistentVolume).Status.Phase = corev1.VolumeBound
		}
	})
	w.later(time.Millisecond, 20*time.Millisecond, func() {
		w.server.Mutate(apiserver.Claims, w.tenantOf(claim.Name), claim.Name, func(o apiserver.Object) {
			c := o.(*corev1.PersistentVolumeClaim)
			if c.UID != claim.UID || c.Spec.VolumeName != "" {
				return
			}
			c.Spec.VolumeName, c.Status.Phase = v.Name, corev1.ClaimBound
			if w.plan.Sizes {
				c.Status.Capacity, c.Status.AccessModes = v.Spec.Capacity.DeepCopy(), v.Spec.AccessModes
			}
			setAnnotation(c, "pv.kubernetes.io/bind-completed", "yes")
		})
	}, "binder", "claim", claim.Name)
}

func (w *World) syncVolume(name string) {
	v, ok := w.volume(name)
	if !ok {
		return
	}
	if v.DeletionTimestamp != nil && v.Status.Phase != corev1.VolumeBound {
		w.later(time.Millisecond, time.Second, func() { w.unprotectVolume(name) }, "protection", "volume", name)
	}
	claim, ok := w.claim(v.Spec.ClaimRef.Name)
	ok = ok && claim.UID == v.Spec.ClaimRef.UID
	if !ok && isForeign(v) && v.DeletionTimestamp == nil {
		w.later(time.Second, 5*time.Second, func() { w.remove(foreign, apiserver.Volumes, "", name) }, foreign, name)
	}
	switch {
	case !ok && v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed:
		w.trace.add("binder", "releases %s", name)
		w.phase(name, corev1.VolumeReleased)
	case ok && claim.Spec.VolumeName == "":
		w.syncClaim(claim.Name)
	case ok && claim.Spec.VolumeName == name && v.Status.Phase != corev1.VolumeBound:
		w.phase(name, corev1.VolumeBound)
	}
}

func (w *World) phase(name string, phase corev1.PersistentVolumePhase) {
	w.server.Mutate(apiserver.Volumes, "", name, func(o apiserver.Object) { o.(*corev1.PersistentVolume).Status.Phase = phase })
}

func (w *World) unprotectClaim(name string) {
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
	w.trace.add("scheduler", "chooses %s for %s", n.name, name)
	w.server.Mutate(apiserver.Claims, w.tenantOf(name), name, func(o apiserver.Object) { setAnnotation(o, selectedNode, n.name) })
}

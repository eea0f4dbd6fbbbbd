package sim

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// Classes whose pods mount a claim have their storage on the server of that claim's volume. An administrator points
// such a class elsewhere by another claim, or by another volume of the claim.

const (
	exports   = "exports" // the claim that pods mount, and the beginning of the names of its volumes
	exportsB  = "exports-b"
	serverA   = "nfs-a"
	serverB   = "nfs-b"
	mountPath = ":/exports"
)

// isExport is for the volumes that pods mount.
func isExport(v *corev1.PersistentVolume) bool { return strings.HasPrefix(v.Name, exports) }

// putExport binds a claim of the provisioners' namespace to the export of a server, as administrators do by hand. A
// claim of the name goes before.
func (w *World) putExport(claim, server string) {
	for resource, name := range map[string]string{apiserver.Claims: claim, apiserver.Volumes: w.exportOf(claim)} {
		space := map[string]string{apiserver.Claims: namespace}[resource]
		if w.server.Mutate(resource, space, name, func(o apiserver.Object) { o.SetFinalizers(nil) }) {
			w.remove("admin", resource, space, name)
		}
	}
	class, mode, size := "", corev1.PersistentVolumeFilesystem, corev1.ResourceList{corev1.ResourceStorage: gigabyte}
	name, modes := claim+"-on-"+server, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
	w.create(apiserver.Claims, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claim, Annotations: map[string]string{bindCompleted: "yes"}},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class, VolumeMode: &mode, AccessModes: modes, VolumeName: name,
			Resources: corev1.VolumeResourceRequirements{Requests: size}}})
	w.server.Mutate(apiserver.Claims, namespace, claim, func(o apiserver.Object) { o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimBound })
	made, _ := apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, namespace, claim)
	w.create(apiserver.Volumes, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{AccessModes: modes, VolumeMode: &mode, Capacity: size, ClaimRef: refTo(made),
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: server, Path: "/exports"}}}})
}

// exportOf is the volume of a claim of the provisioners' namespace, empty where there is no such claim.
func (w *World) exportOf(claim string) string {
	if c, ok := apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, namespace, claim); ok {
		return c.Spec.VolumeName
	}
	return ""
}

// mounted is the server whose export the pod mounts, empty where it mounts none. Until claim and volume exist, ok is
// false.
func (w *World) mounted(pod *corev1.Pod) (server string, ok bool) {
	for _, mount := range pod.Spec.Volumes {
		if mount.PersistentVolumeClaim == nil {
			continue
		}
		v, there := w.volume(w.exportOf(mount.PersistentVolumeClaim.ClaimName))
		if !there {
			return "", false
		}
		server = v.Spec.NFS.Server
	}
	return server, true
}

// orderedAt keeps where a pod works that was just created.
func (w *World) orderedAt(pod *corev1.Pod) {
	if server, ok := w.mounted(pod); ok && server != "" {
		w.set(func() { w.placed[pod.Name] = server })
	}
}

// movedAway reports whether what the pod mounts changed between its creation and its start, which the mark of the
// storage tells the image. Before its creation that is the dispatcher's part.
func (c *container) movedAway() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.w.placed[c.pod.Name] != c.place
}

// pointElsewhere lets the pods of a class work on the other server: they mount another claim, or the claim another
// volume.
func (w *World) pointElsewhere(i, how int, mend func(func())) {
	if !w.plan.Classes[i].Mounts {
		return
	}
	if how%2 == 0 {
		w.mount(i, exportsB)
		mend(func() { w.mount(i, exports) })
		return
	}
	w.putExport(exports, serverB)
	mend(func() { w.putExport(exports, serverA) })
}

// mount writes into the class's ConfigMap which claim its pods mount.
func (w *World) mount(i int, claim string) {
	w.set(func() { w.mounts = claim })
	w.trace.add("admin", "lets class %s mount %s", w.plan.Classes[i].Name, claim)
	w.server.Mutate(apiserver.ConfigMaps, namespace, w.plan.Classes[i].Name, func(o apiserver.Object) {
		o.(*corev1.ConfigMap).Data["mount-claims"] = claim + mountPath
	})
}

// returnTo brings the server back that a volume or an attempt needs which waits for it, as an event says.
func (w *World) returnTo() {
	export, _ := w.volume(w.exportOf(exports))
	if export == nil {
		return
	}
	now := export.Spec.NFS.Server
	for _, v := range apiserver.List[*corev1.PersistentVolume](w.server, apiserver.Volumes) {
		c, events := w.holder(v), w.eventsOf(string(v.UID))
		waits := !isBound(v)
		if c != nil {
			events, waits = append(events, w.eventsOf(string(c.UID))...), !isBound(v) || len(w.unfit(c, v)) > 0
		}
		if key := keyOf(v); waits && told(events, "StorageMoved") && !strings.HasPrefix(key, now) {
			w.bringBack(key, v.Name)
			return
		}
	}
	for _, pod := range append(apiserver.List[*corev1.Pod](w.server, apiserver.Pods), w.savedPods()...) {
		place := recordedAt(pod)
		events := append(w.eventsOf(string(pod.UID)), w.eventsOf(pod.Labels[contract.LabelClaimUID])...)

		// The event may be about a pod that was deleted before it ran.
		over := ended(pod) || pod.DeletionTimestamp != nil
		if over && place != "" && place != now && told(events, "StorageMoved") {
			w.bringBack(place, pod.Name)
			return
		}
	}
}

// recordedAt is the server that an attempt needs by the pod's record, as the event says. The pod may have been created
// a moment after an administrator pointed the claim elsewhere. It is empty where the record names another claim.
func recordedAt(pod *corev1.Pod) string {
	request, err := podspec.RequestOf(pod)
	if err != nil {
		return ""
	}
	for _, mount := range request.Mounts {
		if at, ok := strings.CutPrefix(mount.Source, "nfs://"); ok && mount.Claim == exports {
			server, _, _ := strings.Cut(at, "/")
			return server
		}
	}
	return ""
}

func (w *World) bringBack(place, who string) {
	server := serverA
	if strings.HasPrefix(place, serverB) {
		server = serverB
	}
	w.trace.add("admin", "brings %s back, which %s needs", server, who)
	w.putExport(exports, server)
}

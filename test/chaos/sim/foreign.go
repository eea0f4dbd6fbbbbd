package sim

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// foreign is the name of another provisioner, to which a class may be given and taken back from.
const foreign = "csi.example.com"

func isForeign(v *corev1.PersistentVolume) bool {
	return v.Annotations[contract.ProvisionedBy] == foreign || isExport(v)
}

func (w *World) isForeign(volume string) bool {
	v, ok := w.volume(volume)
	return ok && isForeign(v)
}

// takeClassBack deletes a class of another provisioner.
func (w *World) takeClassBack(i int) {
	name := w.plan.Classes[i].Name
	if class, ok := apiserver.Get[*storagev1.StorageClass](w.server, apiserver.Classes, "", name); ok && class.Provisioner == foreign {
		w.remove("admin", apiserver.Classes, "", name)
	}
}

// serveForeign is the other provisioner, which gives its volumes the same names.
func (w *World) serveForeign(asked *corev1.PersistentVolumeClaim) {
	c, ok := w.claim(asked.Name)
	if !ok || c.UID != asked.UID || c.DeletionTimestamp != nil || c.Spec.VolumeName != "" || c.Spec.VolumeAttributesClassName != nil || c.Annotations[storageProvisioner] != foreign {
		return
	}
	w.create(apiserver.Volumes, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(c.UID), Annotations: map[string]string{contract.ProvisionedBy: foreign}},
		Spec: corev1.PersistentVolumeSpec{StorageClassName: *c.Spec.StorageClassName, AccessModes: c.Spec.AccessModes, VolumeMode: c.Spec.VolumeMode,
			Capacity: c.Spec.Resources.Requests, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			ClaimRef:               &corev1.ObjectReference{Namespace: c.Namespace, Name: c.Name, UID: c.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: foreign, VolumeHandle: string(c.UID)}}},
	})
}

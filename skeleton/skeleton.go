package skeleton

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// New is the volume of a request, complete but for its source and the dispatcher's record. What it carries from its first
// write on is what makes it safe: without the claim's UID it would bind to anybody's claim of that name, without
// provisioned-by nobody would ever delete it, and without the finalizer a delete of the object would count as a delete of
// the storage.
func New(r contract.Request, provisioner string, reclaim corev1.PersistentVolumeReclaimPolicy, mountOptions []string) *corev1.PersistentVolume {
	modes := make([]corev1.PersistentVolumeAccessMode, len(r.AccessModes))
	for i, mode := range r.AccessModes {
		modes[i] = corev1.PersistentVolumeAccessMode(mode)
	}
	volumeMode := corev1.PersistentVolumeMode(r.VolumeMode)
	return &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        r.VolumeName,
			Annotations: map[string]string{contract.ProvisionedBy: provisioner, contract.AnnClaimUID: r.Claim.UID},
			Finalizers:  []string{contract.VolumeFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(r.SizeBytes, resource.BinarySI)},
			AccessModes:                   modes,
			VolumeMode:                    &volumeMode,
			StorageClassName:              r.StorageClass,
			PersistentVolumeReclaimPolicy: reclaim,
			MountOptions:                  mountOptions,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: r.Claim.Namespace, Name: r.Claim.Name, UID: types.UID(r.Claim.UID),
			},
		},
	}
}

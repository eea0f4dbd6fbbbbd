package skeleton

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// New is the volume of a request without its source and the dispatcher's record. A volume has to have these fields from its first write.
// Without the claim's UID it would bind to any claim of that name. Without provisioned-by nobody would delete it. Without the finalizer
// the library would take the storage of a deleted volume for deleted.
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

package podspec

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// ClassTerms are the parts of a StorageClass that its volumes carry.
type ClassTerms struct {
	Provisioner   string
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	MountOptions  []string
	// ConfigStamp says which ConfigMap the volume was made by.
	ConfigStamp string
	// MadeBefore is when the attempt's pod can no longer run; zero where nobody knows.
	MadeBefore time.Time
}

// Skeleton is the PersistentVolume that the pod is to create, complete but for the volume source. What it carries from
// its first write on is what makes it safe: without the claim's UID it would bind to anybody's claim of that name,
// without provisioned-by nobody would ever delete it, and without the finalizer a delete of the object would count as a
// delete of the storage.
func Skeleton(r contract.Request, terms ClassTerms) (*corev1.PersistentVolume, error) {
	identity, err := json.Marshal(r.Identity)
	if err != nil {
		return nil, fmt.Errorf("encode identity of volume %s: %w", r.VolumeName, err)
	}
	modes := make([]corev1.PersistentVolumeAccessMode, len(r.AccessModes))
	for i, mode := range r.AccessModes {
		modes[i] = corev1.PersistentVolumeAccessMode(mode)
	}
	annotations := map[string]string{
		contract.ProvisionedBy: terms.Provisioner,
		contract.AnnClaimUID:   r.Claim.UID,
		contract.AnnConfig:     terms.ConfigStamp,
		contract.AnnIdentity:   string(identity),
	}
	if !terms.MadeBefore.IsZero() {
		annotations[contract.AnnMadeBefore] = terms.MadeBefore.UTC().Format(time.RFC3339)
	}
	volumeMode := corev1.PersistentVolumeMode(r.VolumeMode)
	return &corev1.PersistentVolume{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        r.VolumeName,
			Annotations: annotations,
			Finalizers:  []string{contract.VolumeFinalizer},
		},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(r.SizeBytes, resource.BinarySI)},
			AccessModes:                   modes,
			VolumeMode:                    &volumeMode,
			StorageClassName:              r.StorageClass,
			PersistentVolumeReclaimPolicy: terms.ReclaimPolicy,
			MountOptions:                  terms.MountOptions,
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: r.Claim.Namespace, Name: r.Claim.Name, UID: types.UID(r.Claim.UID),
			},
		},
	}, nil
}

// Restored says that a volume was created later than any pod of ours can have done it. The volume then comes from a
// backup, and its storage may serve somebody who knows nothing of this object. In doubt it says no.
func Restored(volume *corev1.PersistentVolume) bool {
	latest, err := time.Parse(time.RFC3339, volume.Annotations[contract.AnnMadeBefore])
	return err == nil && volume.CreationTimestamp.After(latest)
}

// IdentityOf reads back what Skeleton froze on a volume. A volume without the annotation, made by hand, has an empty one.
func IdentityOf(volume *corev1.PersistentVolume) (contract.Identity, error) {
	var identity contract.Identity
	frozen := volume.Annotations[contract.AnnIdentity]
	if frozen == "" {
		return identity, nil
	}
	if err := json.Unmarshal([]byte(frozen), &identity); err != nil {
		return identity, fmt.Errorf("read annotation %s of volume %s: %w", contract.AnnIdentity, volume.Name, err)
	}
	return identity, nil
}

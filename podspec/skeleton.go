package podspec

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/internal/skeleton"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// ClassFields are the fields of a volume that come from its class.
type ClassFields struct {
	Provisioner   string
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	MountOptions  []string
	// ConfigStamp is the ConfigStamp of the class's ConfigMap.
	ConfigStamp string
	// MadeBefore is when the attempt's pod can no longer run, zero where that is not known.
	MadeBefore time.Time
}

// Skeleton is the PersistentVolume that the pod is to create. It lacks only the volume source, and has the annotations
// that the dispatcher needs later.
func Skeleton(r contract.Request, fields ClassFields) (*corev1.PersistentVolume, error) {
	identity, err := json.Marshal(r.Identity)
	if err != nil {
		return nil, fmt.Errorf("encode identity of volume %s: %w", r.VolumeName, err)
	}

	volume := skeleton.New(r, fields.Provisioner, fields.ReclaimPolicy, fields.MountOptions)
	volume.Annotations[contract.AnnConfig] = fields.ConfigStamp
	volume.Annotations[contract.AnnIdentity] = string(identity)
	if r.Mounts != nil {
		mounts, err := json.Marshal(r.Mounts)
		if err != nil {
			return nil, fmt.Errorf("encode mounts of volume %s: %w", r.VolumeName, err)
		}

		volume.Annotations[contract.AnnMounts] = string(mounts)
	}

	if !fields.MadeBefore.IsZero() {
		volume.Annotations[contract.AnnMadeBefore] = fields.MadeBefore.UTC().Format(time.RFC3339)
	}

	return volume, nil
}

// Restored reports whether a volume was created after the last time at which a pod of the attempt can have run. The
// volume then comes from a backup, and another volume may use its storage. It is false where the time is not known.
func Restored(volume *corev1.PersistentVolume) bool {
	latest, err := time.Parse(time.RFC3339, volume.Annotations[contract.AnnMadeBefore])
	return err == nil && volume.CreationTimestamp.After(latest)
}

// OriginUnknown reports whether nobody knows if Restored is right: somebody took the annotation off that tells, or it
// was never there, and no signature and no administrator says so.
func OriginUnknown(volume *corev1.PersistentVolume) bool {
	return volume.Annotations[contract.AnnMadeBefore] == "" && !Recorded(volume) && !Trusted(volume)
}

// IdentityOf is the identity that Skeleton wrote on a volume. It is empty for a volume that was made by hand.
func IdentityOf(volume *corev1.PersistentVolume) (contract.Identity, error) {
	var identity contract.Identity
	value := volume.Annotations[contract.AnnIdentity]
	if value == "" {
		return identity, nil
	}

	if err := json.Unmarshal([]byte(value), &identity); err != nil {
		return identity, fmt.Errorf("read annotation %s of volume %s: %w", contract.AnnIdentity, volume.Name, err)
	}

	return identity, nil
}

// MountsOf are the mounts that Skeleton wrote on a volume, nil for a volume that was made before it did so, or by hand.
func MountsOf(volume *corev1.PersistentVolume) ([]contract.Mount, error) {
	value, found := volume.Annotations[contract.AnnMounts]
	if !found {
		return nil, nil
	}

	mounts := []contract.Mount{}
	if err := json.Unmarshal([]byte(value), &mounts); err != nil {
		return nil, fmt.Errorf("read annotation %s of volume %s: %w", contract.AnnMounts, volume.Name, err)
	}

	return mounts, nil
}

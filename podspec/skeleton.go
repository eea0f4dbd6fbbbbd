package podspec

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/skeleton"
)

// ClassFields are the parts of a StorageClass that its volumes carry.
type ClassFields struct {
	Provisioner   string
	ReclaimPolicy corev1.PersistentVolumeReclaimPolicy
	MountOptions  []string
	// ConfigStamp says which ConfigMap the volume was made by.
	ConfigStamp string
	// MadeBefore is when the attempt's pod can no longer run; zero where nobody knows.
	MadeBefore time.Time
}

// Skeleton is the PersistentVolume that the pod is to create, complete but for the volume source, with what the dispatcher
// has to know of it later.
func Skeleton(r contract.Request, fields ClassFields) (*corev1.PersistentVolume, error) {
	identity, err := json.Marshal(r.Identity)
	if err != nil {
		return nil, fmt.Errorf("encode identity of volume %s: %w", r.VolumeName, err)
	}
	volume := skeleton.New(r, fields.Provisioner, fields.ReclaimPolicy, fields.MountOptions)
	volume.Annotations[contract.AnnConfig] = fields.ConfigStamp
	volume.Annotations[contract.AnnIdentity] = string(identity)
	if !fields.MadeBefore.IsZero() {
		volume.Annotations[contract.AnnMadeBefore] = fields.MadeBefore.UTC().Format(time.RFC3339)
	}
	return volume, nil
}

// Restored reports whether a volume was created later than any pod of ours can have done it. The volume then comes from a
// backup, and its storage may serve somebody who knows nothing of this object. In doubt it says no.
func Restored(volume *corev1.PersistentVolume) bool {
	latest, err := time.Parse(time.RFC3339, volume.Annotations[contract.AnnMadeBefore])
	return err == nil && volume.CreationTimestamp.After(latest)
}

// Populated reports whether the volume was made for a populator's own claim, and that the populator gave it to the claim that waited for
// its data. Such an annotation, with the claim's namespace, is what Kubernetes' library for populators leaves.
func Populated(volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	for key, of := range volume.Annotations {
		if PopulatedKey(key) && ref != nil && strings.HasPrefix(of, ref.Namespace+"/") {
			return true
		}
	}
	return false
}

// PopulatedKey reports whether an annotation is a populator's, each of which has a prefix of its own.
func PopulatedKey(key string) bool { return strings.HasSuffix(key, "/populated-from") }

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

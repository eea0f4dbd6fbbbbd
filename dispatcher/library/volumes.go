package library

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// client is the library's. The library takes the finalizer off a volume that its cache shows as retained, and says nothing of the
// version that it saw. A volume that is to be deleted again by then would lose the finalizer, and with it its storage. So its
// patches of volumes are of the version in the cache.
type client struct {
	kubernetes.Interface
	volumes cache.Store
}

func (c client) CoreV1() typedcorev1.CoreV1Interface { return core{c.Interface.CoreV1(), c.volumes} }

type core struct {
	typedcorev1.CoreV1Interface
	volumes cache.Store
}

func (c core) PersistentVolumes() typedcorev1.PersistentVolumeInterface {
	return volumes{c.CoreV1Interface.PersistentVolumes(), c.volumes}
}

type volumes struct {
	typedcorev1.PersistentVolumeInterface
	cached cache.Store
}

// Patch patches the volume if it is as the cache has it. After a conflict the library syncs the volume again.
func (v volumes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*corev1.PersistentVolume, error) {
	object, found, err := v.cached.GetByKey(name)
	if err != nil || !found {
		return nil, fmt.Errorf("patch volume %s: the cache does not have it any more", name)
	}
	var patch struct {
		Metadata map[string]any `json:"metadata"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields() // nothing of the patch is dropped
	if err := decoder.Decode(&patch); err != nil || patch.Metadata == nil {
		return nil, fmt.Errorf("patch volume %s: the library patches more than metadata: %.300s", name, data)
	}
	volume := object.(*corev1.PersistentVolume)
	patch.Metadata["uid"], patch.Metadata["resourceVersion"] = volume.UID, volume.ResourceVersion
	if data, err = json.Marshal(patch); err != nil {
		return nil, fmt.Errorf("patch volume %s: %w", name, err)
	}
	return v.PersistentVolumeInterface.Patch(ctx, name, kind, data, o, subresources...)
}

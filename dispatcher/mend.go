package dispatcher

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

func (d *Dispatcher) mend(ctx context.Context, v *corev1.PersistentVolume, m *podspec.Mending) error {
	patch, err := json.Marshal(m.Patch)
	if err != nil {
		return fmt.Errorf("encode patch of volume %s: %w", v.Name, err)
	}
	_, err = d.client.CoreV1().PersistentVolumes().Patch(ctx, v.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("mend volume %s: %w", v.Name, err)
	}
	return nil
}

package cluster

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/conformance"
)

func notExpandable(s *stage) string {
	if allowed := s.class.AllowVolumeExpansion; allowed == nil || !*allowed {
		return "the StorageClass does not say allowVolumeExpansion"
	}
	return ""
}

func (t *trial) checkExpand() {
	const remedy = "kubectl describe pvc tells what the dispatcher did; docs/events.md what it means"
	mode := t.mode()
	if t.config != nil && slices.Contains(t.config.VolumeModes, corev1.PersistentVolumeBlock) {
		mode = corev1.PersistentVolumeBlock // a raw device can be expanded whatever its type
	}
	c, ok := t.bound(mode)
	if !ok || !t.writes(c) {
		return
	}
	if volume := t.volume(c); volume != nil && onDevice(volume) {
		if t.wantGone(c, "after it was used", "see check delete") {
			t.end(conformance.NotApplicable, "nobody grows a file system on iSCSI or Fibre Channel, and the class does not offer volumeMode Block")
		}
		return
	}
	size := t.size()
	size.Add(t.size())
	patch := fmt.Sprintf(`{"spec":{"resources":{"requests":{"storage":%q}}}}`, size.String())
	t.must(wrap("patch", "persistentvolumeclaims", c.Name, t.api.core.Patch(types.MergePatchType).Namespace(c.Namespace).
		Resource("persistentvolumeclaims").Name(c.Name).Body([]byte(patch)).Do(t.ctx).Into(c.PersistentVolumeClaim)))
	if lack := t.until(func() string { return t.volumeLack(c, size) }); lack != "" {
		t.fail(c, "the volume has "+size.String(), lack+t.lastWarningOn(c), remedy)
	} else if !t.reads(c, "after the expansion") { // the pod also lets the kubelet expand the file system
		return
	} else if lack := t.until(func() string { return t.claimLack(c, size) }); lack != "" {
		t.fail(c, "the claim has "+size.String(), lack+t.lastWarningOn(c), remedy)
	}
	t.wantGone(c, "after an expansion", "see check delete")
}

// volumeLack says what the volume lacks of an expansion.
func (t *trial) volumeLack(c *claim, size resource.Quantity) string {
	volume := t.volume(c)
	if volume == nil {
		return "there is no volume"
	}
	if has := volume.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(size) < 0 {
		return "it has " + has.String()
	}
	return ""
}

// claimLack says what the claim lacks of an expansion.
func (t *trial) claimLack(c *claim, size resource.Quantity) string {
	t.must(t.api.get(t.ctx, c.Namespace, "persistentvolumeclaims", c.Name, c.PersistentVolumeClaim))
	if has := c.Status.Capacity[corev1.ResourceStorage]; has.Cmp(size) < 0 {
		return "it has " + has.String()
	}
	return ""
}

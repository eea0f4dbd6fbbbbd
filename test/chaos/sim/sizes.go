package sim

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// resize lets a user ask for more, or for less again, as far as the API server allows that: a bound claim may ask for
// more, and then for any size above the one that it has.
func (w *World) resize(claim string, a Action) {
	bound, ok := w.claim(claim)
	if !ok {
		return
	}
	if v, ok := w.volume(bound.Spec.VolumeName); !ok || v.Spec.NFS == nil {
		return // of Cinder's volumes and other provisioners' no expansion is drawn
	}
	w.server.Mutate(apiserver.Claims, w.tenantOf(claim), claim, func(o apiserver.Object) {
		c := o.(*corev1.PersistentVolumeClaim)
		if c.UID != bound.UID || c.Status.Phase != corev1.ClaimBound || c.DeletionTimestamp != nil {
			return
		}
		asked, has := c.Spec.Resources.Requests.Storage().Value(), c.Status.Capacity.Storage().Value()
		size := asked + int64(1+a.N%3)<<30
		if a.Do == "claim-shrink" {
			if size = has + 1<<29; size >= asked {
				return
			}
			w.set(func() { w.withdrawn[c.UID] = true })
		}
		w.trace.add("user", "%s asks for %d instead of %d", claim, size, asked)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: *resource.NewQuantity(size, resource.BinarySI)}
	})
}

// grow makes storage at least so large.
func (b *backend) grow(key string, size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sizes[key] = max(b.sizes[key], size)
	b.w.trace.add("backend", "%s has %d bytes", key, b.sizes[key])
}

func (b *backend) size(key string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sizes[key]
}

func (b *backend) expand(c *container) error {
	key := c.key()
	if err := b.call(c, "look the storage up"); err != nil {
		return err
	}
	if state := b.get(key); state != available {
		return fmt.Errorf("the storage is %q", state)
	}
	if err := b.call(c, "expand the storage"); err != nil {
		return err
	}
	if b.get(key) == available {
		b.grow(key, c.request.SizeBytes)
	}
	return nil
}

// resized checks that no volume and no claim shrinks, and that no volume is said to have more than its storage has. It is
// called under the server's lock.
func (w *World) resized(before, after apiserver.Object) {
	if before == nil || after == nil || before.GetUID() != after.GetUID() {
		return
	}
	was, is := sizeOf(before), sizeOf(after)
	w.mu.Lock()
	edited := w.said[after.GetName()] == is
	w.mu.Unlock()
	if edited || is == 0 { // an administrator wrote it; a claim lost its volume
		return
	}
	if is < was {
		w.violate("%s shrinks from %d to %d bytes", after.GetName(), was, is)
	}
	if v, ok := after.(*corev1.PersistentVolume); ok && is > was && v.Spec.NFS != nil {
		if has := w.backend.size(keyOf(v)); has < is {
			w.violate("volume %s is said to have %d bytes, and its storage has %d", v.Name, is, has)
		}
	}
}

// sizeOf is what a volume says that it has, and a claim.
func sizeOf(o apiserver.Object) int64 {
	if v, ok := o.(*corev1.PersistentVolume); ok {
		return v.Spec.Capacity.Storage().Value()
	}
	return o.(*corev1.PersistentVolumeClaim).Status.Capacity.Storage().Value()
}

// unfit says where the sizes of a bound claim, its volume and its storage differ when nothing happens any more. A size that
// was asked for and then withdrawn may have been reached. A volume that does not fit is not expanded. One that was made for another claim may
// have more than this one asks for, and what an administrator writes need not be true.
func (w *World) unfit(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) []string {
	w.mu.Lock()
	withdrawn, said := w.withdrawn[c.UID], w.said[v.Name] != 0
	w.mu.Unlock()
	asked, has, made := c.Spec.Resources.Requests.Storage().Value(), sizeOf(c), sizeOf(v)
	storage := made
	if v.Spec.NFS != nil {
		storage = w.backend.size(keyOf(v))
	}
	sizes := []int64{asked, has, made, storage}
	other := v.Name != "pvc-"+string(c.UID)
	equal := asked == has || withdrawn || other
	events := append(w.eventsOf(string(c.UID)), w.eventsOf(string(v.UID))...)
	switch {
	case v.Spec.StorageClassName != *c.Spec.StorageClassName:
		return nil
	case has == made && equal && (made == storage || withdrawn || other) && slices.IsSorted(sizes) && len(c.Status.AllocatedResourceStatuses) == 0:
		return nil
	case said && has >= asked:
		return nil
	case !strings.HasPrefix(v.Name, "pvc-") && (v.Annotations[contract.ProvisionedBy] == "" || told(events, "VolumeNotOurs", "VolumeRecordInvalid", "ExpansionRefused")):
		return nil // nobody knows how it was made
	}
	return []string{fmt.Sprintf("claim %s (%s) asks for %d bytes and has %d, its volume %s has %d, its storage %d, marks %v; their events: %s",
		c.Name, c.UID, asked, has, v.Name, made, storage, c.Status.AllocatedResourceStatuses, strings.Join(events, " | "))}
}

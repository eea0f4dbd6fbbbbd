package sim

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

var errUnreachable = syscall.ECONNREFUSED

// backend is where storage is: pools of named volumes, which take a while to come and to go.
type backend struct {
	w       *World
	mu      sync.Mutex
	storage map[string]storageState // by pool/name
	sizes   map[string]int64        // of what is available, in bytes
}

type storageState string

const (
	creating  storageState = "creating"
	available storageState = "available"
	deleting  storageState = "deleting"
)

func newBackend(w *World) *backend {
	return &backend{w: w, storage: map[string]storageState{}, sizes: map[string]int64{}}
}

// key is where a container's storage is: what finds it again.
func (c *container) key() string {
	pool := c.request.Properties["zone"] + "-" + c.request.Parameters["pool"]
	if c.w.madeFrom(c.pod).NodeLocal {
		pool += "@" + c.run.n.name
	}
	if c.place != "" {
		pool = c.place + "-" + pool
	}
	return pool + "/" + c.request.VolumeName
}

func (b *backend) get(key string) storageState {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.storage[key]
}

func (b *backend) set(key string, s storageState) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == "" {
		delete(b.storage, key)
		delete(b.sizes, key)
	} else {
		b.storage[key] = s
	}
	b.w.trace.add("backend", "%s %s", key, s)
}

// state is a copy.
func (b *backend) state() map[string]storageState {
	b.mu.Lock()
	defer b.mu.Unlock()
	state := map[string]storageState{}
	for key, s := range b.storage {
		state[key] = s
	}
	return state
}

// call is one call of the author's to the backend.
func (b *backend) call(c *container, what string) error {
	to := 500 * time.Millisecond
	if c.chance("backend-slow") {
		to = 20 * time.Second
	}
	if err := c.step(10*time.Millisecond, to, what); err != nil {
		return err
	}
	if c.chance("backend-error") {
		return errors.New("the backend is not available")
	}
	return nil
}

func (b *backend) provision(c *container) (*sdk.Volume, error) {
	if err := b.make(c); err != nil {
		return nil, err
	}
	made := &sdk.Volume{Source: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "backend", Path: "/" + c.key()}}}
	if stager := c.w.madeFrom(c.pod).Stager; stager != "" {
		made.Source = corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: c.key(),
			VolumeAttributes: map[string]string{contract.AttributeStager: stager}}}
	}
	if strings.Contains(c.key(), "@") {
		made.NodeAffinity = sdk.NodeAffinity(corev1.LabelHostname, c.run.n.name)
	}
	return made, nil
}

func (b *backend) make(c *container) error {
	key := c.key()
	if err := b.call(c, "look the storage up"); err != nil {
		return err
	}
	switch b.get(key) {
	case deleting:
		return errors.New("the storage is being deleted")
	case "":
		if err := b.call(c, "create the storage"); err != nil {
			c.lateAnyway(err, func() {
				if b.get(key) == "" {
					b.set(key, creating)
				}
			})
			return err
		}
		b.set(key, creating)
	}
	if err := b.call(c, "wait for the storage"); err != nil {
		return err
	}
	if b.get(key) == creating {
		if b.w.snapshots != nil {
			if err := b.w.snapshots.restoreInto(c, key); err != nil {
				return err
			}
		}
		b.set(key, available)
		b.grow(key, c.request.SizeBytes)
	}
	if b.get(key) != available {
		return errors.New("the storage went away")
	}
	return nil
}

func (b *backend) remove(c *container) error {
	key := c.key()
	if err := b.call(c, "look the storage up"); err != nil {
		return err
	}
	if b.get(key) == "" {
		return nil
	}
	if err := b.call(c, "delete the storage"); err != nil {
		return err
	}
	if b.get(key) != "" {
		b.w.mayDelete(c, key, "deletes")
		b.w.attachments.mayRemove(c, key)
		b.set(key, deleting)
	}
	if err := b.call(c, "wait until the storage is gone"); err != nil {
		return err
	}
	b.set(key, "")
	return nil
}

// mayDelete checks that the removal was meant when its pod was ordered, and for what nobody has used that nobody is about to. how is what
// happens to the storage.
func (w *World) mayDelete(c *container, key, how string) {
	if used, doomed := w.books.removed(key, c.pod.CreationTimestamp.Time); used {
		if !doomed {
			w.violate("pod %s %s the storage at %s, which a claim has used, and neither was that claim deleted under Delete, nor has anybody allowed it", c.pod.Name, how, key)
		}
		return
	}
	for _, v := range w.books.volumes(key) {
		if claim := w.holder(v); claim != nil && claim.DeletionTimestamp == nil && claim.Spec.VolumeName == "" && fits(v, claim) {
			w.violate("pod %s %s the storage of %s, which is about to be bound to %s", c.pod.Name, how, v.Name, claim.Name)
		}
	}
}

// holder is the claim that the volume is for, or nil.
func (w *World) holder(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	ref := v.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, ok := apiserver.Get[*corev1.PersistentVolumeClaim](w.server, apiserver.Claims, ref.Namespace, ref.Name)
	if !ok || !isFor(v, claim) {
		return nil
	}
	return claim
}

// keyOf is where the volume says that its storage is.
func keyOf(v *corev1.PersistentVolume) string {
	switch {
	case v.Spec.NFS != nil:
		return v.Spec.NFS.Path[1:]
	case staged(v):
		return v.Spec.CSI.VolumeHandle
	case isForeign(v):
		return foreign + "/" + v.Name
	}
	return inCinder + v.Name
}

// storage is the state of all storage, by pool/name.
func (w *World) storage() map[string]storageState {
	state := w.backend.state()
	if w.cinder != nil {
		maps.Copy(state, w.cinder.state())
	}
	return state
}

// binding checks that a volume that is being bound has storage.
func (w *World) binding(v *corev1.PersistentVolume) {
	if s := w.storage()[keyOf(v)]; s != available && !isForeign(v) && (!w.isFreed(v.Name) || !w.books.wentBefore(keyOf(v))) {
		w.violate("volume %s is being bound, but its storage is %q", v.Name, s)
	}
}

// volumeNameOf is the last part of a key of the backend.
func volumeNameOf(key string) string {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '/' {
			return key[i+1:]
		}
	}
	return key
}

// lateAnyway lets what a container asked for, and was killed before it was answered, be done within the minute that a storage
// system may take.
func (c *container) lateAnyway(err error, do func()) {
	c.lateToo(err, func() {
		c.w.set(func() { c.w.late[c.request.VolumeName] = true })
		do()
	})
}

// lateToo is lateAnyway for what makes no storage.
func (c *container) lateToo(err error, do func()) {
	if errors.Is(err, errKilled) && c.chance("backend-late") {
		c.w.later(time.Millisecond, 50*time.Second, func() {
			c.w.trace.add("backend", "does late what %s asked for", c.pod.Name)
			do()
		}, "late", c.pod.Name)
	}
}

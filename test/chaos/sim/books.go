package sim

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// books say which storage which claim used last, and whether it may be removed. They know what happened to claims and
// volumes, and nothing of what the dispatcher wrote or believes.
type books struct {
	mu       sync.Mutex
	accounts map[string]*account // by key of the storage
	gone     map[types.UID]bool  // claims that were deleted
}

// account is what the books say of one storage. It is doomed while the claim that used it last is deleted, and the only
// volume that points to it names that claim, or another one that is deleted too, and has the policy Delete; or while an
// administrator allows its removal. What is doomed when its volume goes stays doomed, and nothing else that is used is
// removed, whatever becomes of its volume.
type account struct {
	user    types.UID                           // the claim that was bound to it last; empty if none was
	volumes map[string]*corev1.PersistentVolume // that point to it, by name
	copied  bool                                // its volume came from a backup, and others may use the storage
	doomed  bool
	until   time.Time // until when it was doomed
	since   time.Time // since when it is used
	went    bool      // it was removed, as it was meant to be; who gives its volume to somebody meanwhile gives nothing
}

func newBooks() *books { return &books{accounts: map[string]*account{}, gone: map[types.UID]bool{}} }

// of is called with mu held.
func (b *books) of(key string) *account {
	if b.accounts[key] == nil {
		b.accounts[key] = &account{volumes: map[string]*corev1.PersistentVolume{}}
	}
	return b.accounts[key]
}

// settle is called with mu held when something about an account has changed.
func (b *books) settle(a *account) {
	doomed := a.doomed && len(a.volumes) == 0
	for _, v := range a.volumes {
		ref := v.Spec.ClaimRef
		deleted := ref != nil && b.gone[ref.UID] && b.gone[a.user] && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
		doomed = len(a.volumes) == 1 && (deleted && !a.copied || v.Annotations[contract.AnnAllowDelete] == "true")
	}
	if a.doomed && !doomed {
		a.until = time.Now()
	}
	a.doomed = doomed
}

// use says that a claim is bound to the storage.
func (b *books) use(key string, claim types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(key)
	if a.user == "" {
		a.since = time.Now()
	}
	a.user, a.copied = claim, false
	b.settle(a)
}

func (b *books) copied(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(key)
	a.copied = true
	b.settle(a)
}

// changed hears of claims and volumes, under the server's lock.
func (b *books) changed(before, after apiserver.Object) {
	b.mu.Lock()
	defer b.mu.Unlock()
	object := after
	if object == nil {
		object = before
	}
	v, ok := object.(*corev1.PersistentVolume)
	if ok {
		a := b.of(keyOf(v))
		if a.volumes[v.Name] = v; after == nil {
			delete(a.volumes, v.Name)
		}
		b.settle(a)
		return
	}
	if after != nil && after.GetDeletionTimestamp() == nil {
		return
	}
	b.gone[object.GetUID()] = true
	for _, a := range b.accounts {
		b.settle(a)
	}
}

// doomed reports whether the storage was ever used, and if so whether it may be removed by what was decided before a
// time.
func (b *books) doomed(key string, at time.Time) (used, doomed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(key)
	return a.user != "", a.doomed || at.Before(a.since) || at.Sub(a.until) < decided
}

// removed says that the storage is removed by what was decided before a time, and reports whether that was right.
func (b *books) removed(key string, at time.Time) (used, doomed bool) {
	used, doomed = b.doomed(key, at)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(key).went = !used || doomed
	return used, doomed
}

func (b *books) wentBefore(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of(key).went
}

// volumes are those that point to the storage.
func (b *books) volumes(key string) (list []*corev1.PersistentVolume) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(key)
	for _, name := range sorted(a.volumes) {
		list = append(list, a.volumes[name])
	}
	return list
}

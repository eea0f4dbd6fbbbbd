package dispatcher

import (
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// creatorGuard is the name of the shipped admission policy that lets nobody state another's name in the claim's created-by
// annotations.
const creatorGuard = "flex-guard-claim-creator"

// creators knows whether the annotations that name a claim's creator can be believed. Pods are made where they cannot, too.
type creators struct {
	contains containment
	guard    shipped
	// since is when the guard came into force, nil while it is not.
	since atomic.Pointer[time.Time]
}

// judge looks whether the guard is in force, after a policy changed.
func (c *creators) judge() {
	guard, lack := c.contains.find(c.guard)
	if lack != "" {
		c.since.Store(nil)
		return
	}
	since := slices.MaxFunc([]time.Time{guard.policy.CreationTimestamp.Time, guard.binding.CreationTimestamp.Time}, time.Time.Compare)
	c.since.Store(&since)
}

// trusted says that the guard was in force when the claim was created. Anybody could have written the annotation before.
func (c *creators) trusted(claim *corev1.PersistentVolumeClaim) bool {
	since := c.since.Load()
	return since != nil && !claim.CreationTimestamp.Time.Before(*since)
}

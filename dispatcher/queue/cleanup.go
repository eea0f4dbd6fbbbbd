package queue

import (
	"maps"
	"slices"
	"time"
)

// Cleanup is deferred while users of the class wait. What is written after a claim is bound, or a volume is gone, is
// seen by nobody, and in a burst it would slow the API server down for those who wait. Nothing of it survives a
// restart, and nothing has to.

// deferral is a claim's cleanup that is deferred.
type deferral struct {
	until time.Time
	node  string // of its pod
}

// Cleanup is deferred for deferFor, or in a burst, when more than burst claims wait or are deferred, for deferInBurst.
// So one claim that waits for ever does not keep everybody's pods. An ended pod costs its node little, and not nothing:
// of one node no more are kept than it may run by default. Of all classes no more than deferAtMost are kept: where a
// cluster has more than 12,500 ended pods, Kubernetes deletes the oldest, whosever they are
// (--terminated-pod-gc-threshold).
const (
	deferFor     = 20 * time.Second
	deferInBurst = 10 * time.Minute
	burst        = 100
	deferOnNode  = 110
	deferAtMost  = 8000
)

// UserWaits sets whether somebody waits for the claim's volume, or for its end.
func (q *Queue) UserWaits(uid string, waits bool) {
	var woken []string

	q.mu.Lock()
	if it, ok := q.items[uid]; ok {
		if waits {
			q.endDeferral(uid, it)
		}

		woken = q.setUserWaits(it, waits)
	}

	q.mu.Unlock()

	q.requeueEach(woken)
}

// setUserWaits is called with mu held. When the last user waits no more, all deferred cleanups are to be requeued.
func (q *Queue) setUserWaits(it *item, waits bool) (woken []string) {
	if it.userWaits == waits {
		return nil
	}

	it.userWaits = waits
	c := q.class(it.class)
	if waits {
		c.userWaits++
		return nil
	}

	c.userWaits--
	if c.userWaits > 0 {
		return nil
	}

	return slices.Sorted(maps.Keys(c.deferred))
}

// DeferCleanup defers the cleanup of a claim while users of its class wait, and returns until when. It returns zero if
// the cleanup is due. node is where the claim's pod ended. It is empty for a pod that never had a node, which burdens
// none.
func (q *Queue) DeferCleanup(uid, node string, now time.Time) (until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()

	it, ok := q.items[uid]
	if !ok {
		return time.Time{}
	}

	c := q.class(it.class)
	if c.userWaits == 0 {
		return time.Time{}
	}

	if it.cleanup == nil {
		if q.deferred >= deferAtMost || q.full(node) {
			return time.Time{}
		}

		it.cleanup = &deferral{until: now.Add(c.patience()), node: node}
		c.deferred[uid] = true
		q.deferred++
		q.ended[node]++
	}

	if !now.Before(it.cleanup.until) {
		return time.Time{}
	}

	return it.cleanup.until
}

// full reports whether a node has as many ended pods as are kept. It is called with mu held.
func (q *Queue) full(node string) bool { return node != "" && q.ended[node] >= deferOnNode }

// patience is how long a cleanup of the class is deferred.
func (c *class) patience() time.Duration {
	if c.userWaits+len(c.deferred) > burst {
		return deferInBurst
	}

	return deferFor
}

// endDeferral is called with mu held.
func (q *Queue) endDeferral(uid string, it *item) {
	if it.cleanup == nil {
		return
	}

	delete(q.class(it.class).deferred, uid)
	q.deferred--
	q.ended[it.cleanup.node]--
	if q.ended[it.cleanup.node] == 0 {
		delete(q.ended, it.cleanup.node)
	}

	it.cleanup = nil
}

package queue

import (
	"context"

	"k8s.io/client-go/util/workqueue"
)

// startWorkers is called with mu held.
func (q *Queue) startWorkers(name string, c *class) {
	for range q.workers {
		q.running.Go(func() {
			for q.next(q.ctx, name, c.work) {
			}
		})
	}
}

// next is one turn of a worker.
func (q *Queue) next(ctx context.Context, class string, work workqueue.TypedRateLimitingInterface[string]) bool {
	uid, stop := work.Get()
	if stop || work.ShuttingDown() || ctx.Err() != nil {
		return false
	}

	defer work.Done(uid)

	if !q.begin(class, uid, work) {
		return true
	}

	requeueAfter, err := q.reconcile(ctx, class, uid)
	q.end(uid)
	if err != nil {
		work.AddRateLimited(uid)
	} else {
		work.Forget(uid)
	}

	if requeueAfter > 0 {
		work.AddAfter(uid, requeueAfter)
	}

	return true
}

// begin notes that a claim is being reconciled. It makes a claim known that was forgotten since it was queued, without
// its namespace. It returns false for a claim that was added to another class since: that class's queue has it.
// Otherwise two workers could reconcile it at once.
func (q *Queue) begin(class, uid string, work workqueue.TypedRateLimitingInterface[string]) bool {
	q.mu.Lock()
	c := q.ensureItem(class, "", uid, false)
	if c.work != work {
		q.mu.Unlock()
		c.work.Add(uid)

		return false
	}

	it := q.items[uid]
	it.fresh, it.asked = false, false
	q.mu.Unlock()

	return true
}

// end takes a claim out of the line if its reconciliation did not ask for a slot, for instance because of an error. The
// next claim in line may have the slot.
func (q *Queue) end(uid string) {
	q.mu.Lock()
	it, ok := q.items[uid]
	if !ok || it.asked || it.number == 0 {
		q.mu.Unlock()
		return
	}

	c := q.class(it.class)
	c.leave(it, false)
	q.requeueNextAndUnlock(c)
}

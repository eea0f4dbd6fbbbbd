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
		return true
	}
	work.Forget(uid)
	if requeueAfter > 0 {
		work.AddAfter(uid, requeueAfter)
	}
	return true
}

// begin notes that a claim is being reconciled. One that was forgotten since it was queued is known again, without its namespace. A claim that
// was added to another queue since is that queue's: begin reports that it is not this one's, else two workers could reconcile it at once.
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

// end takes a claim out of line whose reconciliation asked for no place, for instance because of an error: the next claim may have it.
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

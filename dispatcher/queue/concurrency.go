package queue

import "time"

// concurrency keeps a class's max-concurrent: at most so many pods of it that have not ended. Each has a slot. A
// claim that finds no slot waits in line, and is requeued when it is the first and a slot is free. The namespace
// that has the fewest slots goes first. Among equals namespaces take turns, and within a namespace it is first come,
// first served. A namespace has had its turn when it gets a slot, and again when it gives one back: with one slot in
// all, it would otherwise have two in a row while another one waits. A claim leaves the line when it gets a slot, or
// when its reconciliation asks for none. Queue.mu guards it.
type concurrency struct {
	limit int            // as it was asked for last; 0 for none
	used  int            // slots in all
	slots map[string]int // slots by namespace
	line  turns
}

// slot is where a pod's slot counts: in the class in whose queue the claim is, whatever class the pod names, and in the
// claim's namespace.
type slot struct {
	class     *class
	namespace string
}

// An event reports the wait after reportWaitAfter, and reportWaitEach later for each claim that goes first. So for a
// class no more than ten events a second are written, and none in a burst that goes faster: each event is a write.
const (
	reportWaitAfter = 10 * time.Second
	reportWaitEach  = 100 * time.Millisecond
)

func newConcurrency() concurrency {
	return concurrency{slots: map[string]int{}}
}

// Acquire takes a slot for the claim's pod, or reports that there is none. Then used is how many are taken, and an
// event reports the wait at reportAt. With limit 0 there is always one. A caller that takes a slot and creates no pod
// has to Release it.
func (q *Queue) Acquire(class, uid, pod string, limit int, now time.Time) (used int, reportAt time.Time, ok bool) {
	q.mu.Lock()
	c := q.ensureItem(class, "", uid, false)
	it := q.items[uid]
	c.limit = limit

	_, has := q.pods[pod]
	if !has && limit > 0 {
		c.enterLine(it, uid, now)
		if c.next() != uid {
			it.asked = true
			defer q.mu.Unlock()

			return c.used, it.reportAt, false
		}
	}

	q.take(c, it, pod)
	q.requeueNextAndUnlock(c)

	return 0, time.Time{}, true
}

// enterLine puts the claim in line, unless it is in it.
func (c *concurrency) enterLine(it *item, uid string, now time.Time) {
	if it.number != 0 {
		return
	}

	if it.reportAt.IsZero() {
		it.reportAt = now.Add(reportWaitAfter + time.Duration(c.line.ahead(it.namespace))*reportWaitEach)
	}

	it.number = c.line.enter(it.namespace, uid)
}

// next is the claim that gets the free slot. It is empty if no slot is free or no claim waits.
func (c *concurrency) next() (uid string) {
	if c.limit > 0 && c.used >= c.limit {
		return ""
	}

	_, first, _ := c.line.first(func(namespace string) int { return c.slots[namespace] })

	return first.uid
}

// take is called with mu held.
func (q *Queue) take(c *class, it *item, pod string) {
	if _, has := q.pods[pod]; !has {
		q.pods[pod] = slot{c, it.namespace}
		c.used++
		c.slots[it.namespace]++
	}

	c.leave(it, true)
	it.reportAt = time.Time{}
}

// leave takes the claim out of the line.
func (c *concurrency) leave(it *item, served bool) {
	if it.number != 0 {
		c.line.leave(it.namespace, it.number, served)
		it.number = 0
	}
}

// requeueNextAndUnlock follows each change of a class's slots or line.
func (q *Queue) requeueNextAndUnlock(c *class) {
	uid := c.next()
	q.mu.Unlock()
	if uid != "" {
		c.work.Add(uid)
	}
}

// PodChanged is Add for a change of a claim's pod. A pod that has not ended has a slot from now on, whatever the limit.
// One that has ended, or is gone, gives its slot back. released reports whether it had one.
func (q *Queue) PodChanged(class, namespace, uid, pod string, ended bool) (released bool) {
	if ended {
		released = q.Release(pod)
	} else {
		q.mu.Lock()
		c := q.ensureItem(class, namespace, uid, true)
		q.take(c, q.items[uid], pod)
		q.requeueNextAndUnlock(c)
	}

	q.Add(class, namespace, uid)

	return released
}

// Release gives a pod's slot back. It reports whether the pod had one.
func (q *Queue) Release(pod string) (had bool) {
	q.mu.Lock()
	p, had := q.pods[pod]
	if !had {
		q.mu.Unlock()
		return false
	}

	delete(q.pods, pod)
	c := p.class
	c.used--
	c.slots[p.namespace]--
	if c.slots[p.namespace] == 0 {
		delete(c.slots, p.namespace)
	}

	c.line.postpone(p.namespace)
	q.requeueNextAndUnlock(c)

	return true
}

// Pods counts the pods that have not ended, by class.
func (q *Queue) Pods() map[string]int {
	q.mu.Lock()
	defer q.mu.Unlock()

	counts := make(map[string]int, len(q.classes))
	for name, c := range q.classes {
		counts[name] = c.used
	}

	return counts
}

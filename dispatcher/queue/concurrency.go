package queue

import "time"

// concurrency keeps a class's max-concurrent exactly: at most so many pods of it that have not ended. A claim that finds no
// place waits, and is called when a place is free. The namespace that has the fewest places goes first, among equals namespaces take
// turns, and within a namespace it is first come, first served. The place is kept for the look that follows the call. A claim that
// does not use it then, because of an error for instance, keeps its turn. Queue.mu guards it.
type concurrency struct {
	pods map[string]string // namespaces of pods that have not ended, by the pods' names
	held map[string]int    // places that pods have, or that are kept, by namespace
	kept int               // places that are kept
	line turns
}

// turn is a claim's wait for a place.
type turn struct {
	ticket
	called bool      // a place is kept
	tellAt time.Time // when the user is told
}

// A user is told of the wait after tellWaitAfter, and later for each claim that goes first. So of a class no more than ten events
// a second are written, and none in a burst that goes faster: each event is a write.
const (
	tellWaitAfter = 10 * time.Second
	tellWaitEach  = 100 * time.Millisecond
)

func newConcurrency() concurrency {
	return concurrency{pods: map[string]string{}, held: map[string]int{}}
}

// Full says that the class has no place for the claim's pod, how many places are taken, and when its user is told. With limit 0
// there is always a place. Otherwise the claim waits from now on.
func (q *Queue) Full(class, uid, pod string, limit int) (used int, tellAt time.Time, full bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.note(class, "", uid, false)
	it := q.items[uid]
	if c.hasPlace(it, pod, limit) {
		return 0, time.Time{}, false
	}
	c.enqueue(it, uid)
	return len(c.pods) + c.kept, it.turn.tellAt, true
}

// Acquire takes a place for the claim's pod, or says that there is none.
func (q *Queue) Acquire(class, uid, pod string, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.note(class, "", uid, false)
	it := q.items[uid]
	if !c.hasPlace(it, pod, limit) {
		c.enqueue(it, uid)
		return false
	}
	c.take(it, pod)
	return true
}

// PodChanged is Add for a change of a claim's pod. A pod that has not ended has a place from now on, whatever the limit. One that
// has ended, or is gone, gives its place back. released says whether it had one.
func (q *Queue) PodChanged(class, namespace, uid, pod string, ended bool) (released bool) {
	if ended {
		released = q.Release(class, pod)
	} else {
		q.mu.Lock()
		q.note(class, namespace, uid, true).take(q.items[uid], pod)
		q.mu.Unlock()
	}
	q.Add(class, namespace, uid)
	return released
}

func (c *concurrency) take(it *item, pod string) {
	if _, has := c.pods[pod]; !has {
		c.pods[pod] = it.namespace
		c.held[it.namespace]++
	}
	c.leave(it, true)
}

// Release gives a pod's place back and calls the next claim. It says whether the pod had one.
func (q *Queue) Release(class, pod string) bool {
	q.mu.Lock()
	c, ok := q.classes[class]
	if !ok {
		q.mu.Unlock()
		return false
	}
	namespace, has := c.pods[pod]
	if !has {
		q.mu.Unlock()
		return false
	}
	delete(c.pods, pod)
	c.drop(namespace)
	called := q.callNext(c)
	q.mu.Unlock()
	q.pokeEach(called)
	return true
}

// Pods counts the class's pods that have not ended.
func (q *Queue) Pods(class string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c, ok := q.classes[class]; ok {
		return len(c.pods)
	}
	return 0
}

// unused gives back the place that was kept for a look which did not use it, because the claim is gone for instance.
func (q *Queue) unused(uid string) {
	q.mu.Lock()
	var called []string
	if it, ok := q.items[uid]; ok && it.turn != nil {
		if c := q.class(it.class); c.unkeep(it.turn) {
			called = q.callNext(c)
		}
	}
	q.mu.Unlock()
	q.pokeEach(called)
}

// callNext is called with mu held. Who is called has to be poked without it.
func (q *Queue) callNext(c *class) []string {
	uid, t, ok := c.line.call(func(namespace string) int { return c.held[namespace] })
	if !ok {
		return nil
	}
	q.items[uid].turn.called = true
	c.kept++
	c.held[t.namespace]++
	return []string{uid}
}

func (c *concurrency) hasPlace(it *item, pod string, limit int) bool {
	kept := c.kept
	if it.turn != nil && it.turn.called {
		kept = 0 // as many are called as places are free, unless the limit fell
	}
	_, has := c.pods[pod]
	return limit == 0 || has || len(c.pods)+kept < limit
}

func (c *concurrency) enqueue(it *item, uid string) {
	if it.turn != nil {
		c.unkeep(it.turn)
		c.line.back(it.turn.ticket, uid)
		return
	}
	ahead := c.line.ahead(it.namespace)
	it.turn = &turn{ticket: c.line.enter(it.namespace, uid), tellAt: time.Now().Add(tellWaitAfter + time.Duration(ahead)*tellWaitEach)}
}

// leave ends the claim's wait. It says whether a place was kept.
func (c *concurrency) leave(it *item, served bool) (kept bool) {
	if it.turn == nil {
		return false
	}
	kept = c.unkeep(it.turn)
	c.line.leave(it.turn.ticket, served)
	it.turn = nil
	return kept
}

// unkeep says whether a place was kept.
func (c *concurrency) unkeep(t *turn) bool {
	if !t.called {
		return false
	}
	t.called = false
	c.kept--
	c.drop(t.namespace)
	return true
}

func (c *concurrency) drop(namespace string) {
	c.held[namespace]--
	if c.held[namespace] == 0 {
		delete(c.held, namespace)
	}
}

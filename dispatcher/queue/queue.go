package queue

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
)

// Reconcile reconciles one claim. requeueAfter is when the claim is requeued without a change, 0 for never. After an
// error, which Reconcile has logged, the claim is requeued with a growing delay, or after requeueAfter if that is
// sooner. It is never called twice at once for one UID.
type Reconcile func(ctx context.Context, class, uid string) (requeueAfter time.Duration, err error)

// Queue hands claims to workers. Each StorageClass has a queue and workers of its own, so that ten thousand claims of
// one class in trouble do not delay a claim of another. Make it with New.
//
// mu guards all fields below it, and everything that classes and items hold. The queues of client-go have locks of
// their own, and ask for the order of their items with these held. So none of their methods is called with mu held.
type Queue struct {
	reconcile Reconcile
	workers   int
	running   sync.WaitGroup

	mu       sync.Mutex
	ctx      context.Context // set by Start
	items    map[string]*item
	classes  map[string]*class
	pods     map[string]slot // of pods that have not ended, by their names
	deferred int             // items whose cleanup is deferred
	ended    map[string]int  // the pods of deferred cleanups, by node
}

// item is a claim that the queue knows: from Add, or from its first pod, until Forget.
type item struct {
	class, namespace string
	// fresh is set until the claim is reconciled for the first time.
	fresh bool
	// userWaits reports whether somebody waits for the claim's volume, or for its end.
	userWaits bool
	// cleanup is set while the claim's cleanup is deferred.
	cleanup *deferral
	// number in line while the claim waits for a slot for its pod, else 0. asked is set if the present reconciliation
	// asked for one. reportAt is when an event reports the wait, zero where the claim has not waited since its last
	// pod.
	number   uint64
	asked    bool
	reportAt time.Time
}

// class is a StorageClass that has, or had, known claims.
type class struct {
	work   workqueue.TypedRateLimitingInterface[string]
	active int // items
	// userWaits counts the items with a user who waits, and deferred are those whose cleanup is deferred.
	userWaits int
	deferred  map[string]bool
	concurrency
}

// New makes a queue whose classes have so many workers each.
func New(workers int, reconcile Reconcile) *Queue {
	return &Queue{
		reconcile: reconcile, workers: workers,
		items: map[string]*item{}, classes: map[string]*class{}, pods: map[string]slot{}, ended: map[string]int{},
	}
}

// Start lets the workers run until ctx ends. What was added before waits until then.
func (q *Queue) Start(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.ctx = ctx
	for name, c := range q.classes {
		q.startWorkers(name, c)
	}
}

// Wait returns when all workers have ended, which they do once the context of Start has.
func (q *Queue) Wait() {
	q.mu.Lock()
	works := make([]workqueue.TypedRateLimitingInterface[string], 0, len(q.classes))
	for _, c := range q.classes {
		works = append(works, c.work)
	}

	q.mu.Unlock()

	for _, work := range works {
		work.ShutDown()
	}

	q.running.Wait()
}

// Add makes a claim known and queues it. A claim stays in the queue of the class with which it was added first, until
// its worker moves it: else two workers could reconcile it at once.
func (q *Queue) Add(class, namespace, uid string) {
	q.mu.Lock()
	work := q.ensureItem(class, namespace, uid, true).work
	q.mu.Unlock()
	work.Add(uid)
}

// Move puts a claim into the queue of another class. The worker that reconciles the claim calls it, and does nothing
// else for the claim after that. The slots of the claim's pods stay those of the class that they were taken from.
func (q *Queue) Move(uid, class string) {
	q.mu.Lock()
	it, known := q.items[uid]
	if !known {
		q.mu.Unlock()
		return
	}

	from, to := q.class(it.class), q.class(class)
	woken := q.setUserWaits(it, false)
	q.endDeferral(uid, it)
	from.leave(it, false)

	it.class, it.reportAt = class, time.Time{}
	from.active--
	to.active++

	q.requeueNextAndUnlock(from)
	q.requeueEach(woken)
	to.work.Add(uid)
}

// ensureItem makes a claim known. It is called with mu held. A claim that became known without its namespace gets it
// later, but not while it stands in line: it leaves the line by the namespace with which it entered.
func (q *Queue) ensureItem(name, namespace, uid string, fresh bool) *class {
	it, known := q.items[uid]
	if !known {
		it = &item{class: name, fresh: fresh}
		q.items[uid] = it
		q.class(name).active++
	}

	if it.namespace == "" && it.number == 0 {
		it.namespace = namespace
	}

	return q.class(it.class)
}

// class is called with mu held. A class that comes after the end of Start's context gets no workers, since Wait would
// not know of them.
func (q *Queue) class(name string) *class {
	c, ok := q.classes[name]
	if !ok {
		c = &class{work: q.newWork(), deferred: map[string]bool{}, concurrency: newConcurrency()}
		q.classes[name] = c
		switch {
		case q.ctx == nil: // Start does it
		case q.ctx.Err() == nil:
			q.startWorkers(name, c)
		default:
			c.work.ShutDown() // nobody else has it yet, so that mu may be held
		}
	}

	return c
}

func (q *Queue) newWork() workqueue.TypedRateLimitingInterface[string] {
	ranked := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &ranking{of: q.rankOf}})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: ranked})

	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delayed})
}

// rankOf is what decides a claim's rank in the order of its class.
func (q *Queue) rankOf(uid string) (namespace string, fresh bool) {
	q.mu.Lock()
	defer q.mu.Unlock()

	if it, ok := q.items[uid]; ok {
		return it.namespace, it.fresh
	}

	return "", false
}

// Requeue queues a claim that is known.
func (q *Queue) Requeue(uid string) { q.RequeueAfter(uid, 0) }

// RequeueAfter queues a claim that is known, after a while.
func (q *Queue) RequeueAfter(uid string, after time.Duration) {
	q.mu.Lock()
	it, ok := q.items[uid]
	if !ok {
		q.mu.Unlock()
		return
	}

	work := q.class(it.class).work
	q.mu.Unlock()
	work.AddAfter(uid, after)
}

// RequeueAll queues all known claims.
func (q *Queue) RequeueAll() { q.requeueIf(func(*item) bool { return true }) }

// RequeueClasses queues all known claims of some classes.
func (q *Queue) RequeueClasses(these func(class string) bool) {
	q.requeueIf(func(it *item) bool { return these(it.class) })
}

func (q *Queue) requeueIf(is func(*item) bool) {
	q.mu.Lock()
	works := map[string]workqueue.TypedRateLimitingInterface[string]{}
	for uid, it := range q.items {
		if is(it) {
			works[uid] = q.class(it.class).work
		}
	}

	q.mu.Unlock()

	for uid, work := range works {
		work.Add(uid)
	}
}

// Forget ends what is known of a claim. keep says that its pods still exist: then the claim stays known, and nothing
// else of it.
func (q *Queue) Forget(uid string, keep bool) {
	q.mu.Lock()
	it, ok := q.items[uid]
	if !ok {
		q.mu.Unlock()
		return
	}

	c := q.class(it.class)
	woken := q.setUserWaits(it, false)
	q.endDeferral(uid, it)
	c.leave(it, false)
	if !keep {
		delete(q.items, uid)
		c.active--
	}

	q.requeueNextAndUnlock(c)
	q.requeueEach(woken)
}

func (q *Queue) requeueEach(uids []string) {
	for _, uid := range uids {
		q.Requeue(uid)
	}
}

// EndClass ends the queue of a class that does not exist any more, unless it has known claims or pods. A claim that is
// added later begins another one.
func (q *Queue) EndClass(name string) (ended bool) {
	q.mu.Lock()
	c, ok := q.classes[name]
	if ok && c.active+c.used > 0 {
		q.mu.Unlock()
		return false
	}

	delete(q.classes, name)
	q.mu.Unlock()
	if ok {
		c.work.ShutDown()
	}

	return true
}

// Active counts the known claims of a class.
func (q *Queue) Active(class string) int {
	q.mu.Lock()
	defer q.mu.Unlock()

	if c, ok := q.classes[class]; ok {
		return c.active
	}

	return 0
}

// Depths counts the queued claims of each class.
func (q *Queue) Depths() map[string]int {
	q.mu.Lock()
	works := make(map[string]workqueue.TypedRateLimitingInterface[string], len(q.classes))
	for name, c := range q.classes {
		works[name] = c.work
	}

	q.mu.Unlock()

	depths := make(map[string]int, len(works))
	for name, work := range works {
		depths[name] = work.Len()
	}

	return depths
}

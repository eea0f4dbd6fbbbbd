package dispatcher

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// lanes are one queue with its own threads for each storage class, so that a class with ten thousand claims in trouble
// does not make another class's claim wait in line.
type lanes struct {
	look    func(ctx context.Context, class, uid string) (again time.Duration, err error)
	threads int

	mu     sync.Mutex
	ctx    context.Context // set by start
	wg     sync.WaitGroup
	queues map[string]workqueue.TypedRateLimitingInterface[string]
	// classOf is every UID that has anything going on, so that a change of a class's ConfigMap reaches them all.
	classOf map[string]string
	known   map[string]int // how many UIDs of each class that are
	fresh   sync.Map       // UIDs that were added and that nobody has looked at; queues ask with their locks held
}

func newLanes(threads int, look func(ctx context.Context, class, uid string) (time.Duration, error)) *lanes {
	return &lanes{look: look, threads: threads,
		queues: map[string]workqueue.TypedRateLimitingInterface[string]{}, classOf: map[string]string{}, known: map[string]int{}}
}

// start lets the threads run until ctx ends; what was added before waits until then.
func (l *lanes) start(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ctx = ctx
	for class, queue := range l.queues {
		l.serve(class, queue)
	}
}

// wait returns when all threads have ended, which they do once the context of start has.
func (l *lanes) wait() {
	l.mu.Lock()
	for _, queue := range l.queues {
		queue.ShutDown()
	}
	l.mu.Unlock()
	l.wg.Wait()
}

// add makes the UID known and asks for a look at it. A UID stays in the lane that it came to first, whatever class a
// volume of its name may carry: two lanes could look at it at once.
func (l *lanes) add(class, uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.classOf[uid]; ok {
		class = known
	} else {
		l.known[class]++
		l.fresh.Store(uid, nil)
	}
	l.classOf[uid] = class
	l.queue(class).Add(uid)
}

// know makes the UID known and asks for nothing.
func (l *lanes) know(class, uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.classOf[uid]; !ok {
		l.classOf[uid] = class
		l.known[class]++
	}
}

// poke asks for a look at the UID if it is known.
func (l *lanes) poke(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if class, ok := l.classOf[uid]; ok {
		l.queue(class).Add(uid)
	}
}

// pokeAll asks for a look at everything.
func (l *lanes) pokeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, class := range l.classOf {
		l.queue(class).Add(uid)
	}
}

// pokeClass asks for a look at all of a class.
func (l *lanes) pokeClass(class string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, c := range l.classOf {
		if c == class {
			l.queue(class).Add(uid)
		}
	}
}

func (l *lanes) forget(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if class, ok := l.classOf[uid]; ok {
		l.known[class]--
		delete(l.classOf, uid)
	}
	l.fresh.Delete(uid)
}

// end ends the lane of a class that is gone, unless something of it is going on. It begins again when something comes.
func (l *lanes) end(class string) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[class] > 0 {
		return false
	}
	if queue, ok := l.queues[class]; ok {
		queue.ShutDown()
	}
	delete(l.queues, class)
	delete(l.known, class)
	return true
}

// has says that something of the class is going on.
func (l *lanes) has(class string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[class] > 0
}

func (l *lanes) isFresh(uid string) bool {
	_, fresh := l.fresh.Load(uid)
	return fresh
}

// busy says that more than one UID of the class has something going on.
func (l *lanes) busy(class string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[class] > 1
}

// queue is called with mu held.
func (l *lanes) queue(class string) workqueue.TypedRateLimitingInterface[string] {
	queue, ok := l.queues[class]
	if !ok {
		queue = l.newQueue()
		l.queues[class] = queue
		if l.ctx != nil {
			l.serve(class, queue)
		}
	}
	return queue
}

func (l *lanes) newQueue() workqueue.TypedRateLimitingInterface[string] {
	order := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &freshFirst{isFresh: l.isFresh}})
	delayed := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: order})
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](50*time.Millisecond, time.Minute),
		workqueue.TypedRateLimitingQueueConfig[string]{DelayingQueue: delayed})
}

func (l *lanes) serve(class string, queue workqueue.TypedRateLimitingInterface[string]) {
	for range l.threads {
		l.wg.Go(func() {
			for l.next(class, queue) {
			}
		})
	}
}

func (l *lanes) next(class string, queue workqueue.TypedRateLimitingInterface[string]) bool {
	uid, stop := queue.Get()
	if stop || queue.ShuttingDown() || l.ctx.Err() != nil {
		return false
	}
	defer queue.Done(uid)
	l.fresh.Delete(uid)
	again, err := l.look(l.ctx, class, uid)
	if err != nil {
		klog.FromContext(l.ctx).Error(err, "Will look again", "claimUID", uid, "StorageClass", class)
		queue.AddRateLimited(uid)
		return true
	}
	queue.Forget(uid)
	if again > 0 {
		queue.AddAfter(uid, again)
	}
	return true
}

package dispatcher

import (
	"context"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// lanes are one queue with its own threads for each storage class, so that a class with ten thousand claims in trouble
// does not make another class's claim wait in line. Within a lane namespaces take turns.
type lanes struct {
	look    func(ctx context.Context, class, uid string) (again time.Duration, err error)
	threads int

	mu     sync.Mutex
	ctx    context.Context // set by start
	wg     sync.WaitGroup
	queues map[string]workqueue.TypedRateLimitingInterface[string]
	known  known
}

func newLanes(threads int, look func(ctx context.Context, class, uid string) (time.Duration, error)) *lanes {
	return &lanes{look: look, threads: threads,
		queues: map[string]workqueue.TypedRateLimitingInterface[string]{}, known: known{byUID: map[string]subject{}, byClass: map[string]int{}}}
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

// add makes the UID of a claim in the namespace known and asks for a look at it. A UID stays in the lane that it came to
// first, whatever class a volume of its name may carry: two lanes could look at it at once.
func (l *lanes) add(class, namespace, uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.known.note(uid, subject{class: class, namespace: namespace, fresh: true})
	l.queue(s.class).Add(uid)
}

// know makes the UID known and asks for nothing.
func (l *lanes) know(class, namespace, uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.note(uid, subject{class: class, namespace: namespace})
}

// namespace is that of the claim with the UID, empty for one that is not known.
func (l *lanes) namespace(uid string) string {
	namespace, _ := l.known.of(uid)
	return namespace
}

// poke asks for a look at the UID if it is known.
func (l *lanes) poke(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s, ok := l.known.get(uid); ok {
		l.queue(s.class).Add(uid)
	}
}

// pokeAll asks for a look at everything.
func (l *lanes) pokeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, class := range l.known.classes() {
		l.queue(class).Add(uid)
	}
}

// pokeClass asks for a look at all of a class.
func (l *lanes) pokeClass(class string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for uid, c := range l.known.classes() {
		if c == class {
			l.queue(class).Add(uid)
		}
	}
}

func (l *lanes) forget(uid string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.forget(uid)
}

// end ends the lane of a class that is gone, unless something of it is going on. It begins again when something comes.
func (l *lanes) end(class string) (ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known.count(class) > 0 {
		return false
	}
	if queue, ok := l.queues[class]; ok {
		queue.ShutDown()
		delete(l.queues, class)
	}
	return true
}

// has says that something of the class is going on.
func (l *lanes) has(class string) bool { return l.known.count(class) > 0 }

// busy says that more than one UID of the class has something going on.
func (l *lanes) busy(class string) bool { return l.known.count(class) > 1 }

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
	order := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: &freshFirst{of: l.known.of}})
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
	l.known.looked(uid)
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

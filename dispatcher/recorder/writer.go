package recorder

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

const (
	// maxWrites and maxReads are how many events are written, and logs read, at once.
	maxWrites = 4
	maxReads  = 4
	// logWithin is how long an event waits for the log of its pod. The node may be gone, and the event has to say the
	// rest soon.
	logWithin = 5 * time.Second
	// answerWithin is how long the API server may take to answer. What it did not answer is written again.
	answerWithin = 10 * time.Second
	// longestRetry is the longest delay between two tries. The first is a second, and each one twice the one before.
	longestRetry = time.Minute
	// drainFor is how long events are written that are left at the end.
	drainFor = 2 * time.Second
)

// Causes for which events are given up.
const (
	lostFull     = "full"
	lostRefused  = "refused"
	lostOutdated = "outdated"
	lostEnded    = "ended"
)

// ErrLeaseLost is the cause of a context that ends because another process leads. Nothing more is written then.
var ErrLeaseLost = errors.New("the Lease was lost")

// PodLog is what an event says of a pod's log.
type PodLog struct {
	Pod *corev1.Pod
	// Read returns what to add to the event's message. It is called in the background. Nil is for no log.
	Read func(ctx context.Context) string
	// Missing is what to add where Read does not return in time.
	Missing string
}

// Start writes events in the background until stop is called, which tries for a moment to write those that are left. If
// the cause for which ctx ends is ErrLeaseLost, nothing is written from then on.
func (r *Recorder) Start(ctx context.Context, client kubernetes.Interface) (stop func()) {
	r.log = klog.FromContext(ctx)
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), ErrLeaseLost) {
			cancel()
		}
	})

	var running sync.WaitGroup
	running.Go(func() { r.write(writing, client) })

	return func() {
		r.drain()
		defer cancel()
		defer time.AfterFunc(drainFor, cancel).Stop()

		running.Wait()
	}
}

// drain makes write end once nothing is left.
func (r *Recorder) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.draining = true
	r.store.hurry(time.Now())
	r.wakeWriter()
}

// wakeWriter makes write look at the store. It is called with mu held.
func (r *Recorder) wakeWriter() {
	select {
	case r.wake <- struct{}{}:
	default: // it looks anyway
	}
}

// write writes what the store holds, and reads logs for it.
func (r *Recorder) write(ctx context.Context, client kubernetes.Interface) {
	var running sync.WaitGroup
	defer running.Wait()

	for {
		again, done := r.begin(ctx, client, &running)
		if done {
			return
		}

		var timer <-chan time.Time
		if !again.IsZero() {
			timer = time.After(time.Until(again))
		}

		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer:
		}
	}
}

// begin begins what can be done now. again is when there is more to do without a word from others.
func (r *Recorder) begin(ctx context.Context, client kubernetes.Interface, running *sync.WaitGroup) (
	again time.Time, done bool) {
	r.mu.Lock()
	defer r.mu.Unlock()

	now := time.Now()

	for len(r.reads) < maxReads {
		c := r.store.nextLog(now, r.reads)
		if c == nil {
			break
		}

		e, by := c.event, c.logBy
		node, read := e.log.Pod.Spec.NodeName, e.log.Read
		r.reads[node] = true
		running.Go(func() { r.readLog(ctx, c, e, node, read, by) })
	}

	for r.writes < maxWrites {
		var c *slot
		c, again = r.store.next(now)
		if c == nil {
			break
		}

		r.writes++
		if c.event.log.Read != nil {
			r.completeLog(c.event, c.event.log.Missing)
		}

		e := c.event
		next, update := r.series[c.key].of(c.key, e, now)
		running.Go(func() {
			r.written(c, e, next, send(ctx, client, e, next, update))
		})
	}

	return again, r.draining && len(r.store.order) == 0
}

// readLog reads the log for an event, which the slot may have lost to a later one by then.
func (r *Recorder) readLog(ctx context.Context, c *slot, e *event, node string, read func(context.Context) string,
	by time.Time) {
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()

	more := read(ctx)

	r.mu.Lock()
	defer r.mu.Unlock()

	delete(r.reads, node)
	c.reading = false
	if c.event == e && !c.writing && e.log.Read != nil {
		r.completeLog(e, more)
	}

	r.wakeWriter()
}

// completeLog adds to an event what is to be said of the pod's log. It is called with mu held.
func (r *Recorder) completeLog(e *event, more string) {
	if more != "" {
		e.message = podspec.EventMessage(e.message + "; " + more)
	}

	e.log = PodLog{}
	r.report(e)
}

// send writes an event.
func send(ctx context.Context, client kubernetes.Interface, e *event, s series, update bool) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()

	object := s.object(e)
	to := client.CoreV1().Events(object.Namespace)

	if update {
		body, err := s.patch(e)
		if err != nil {
			return err
		}

		_, err = to.Patch(ctx, s.name, types.MergePatchType, body, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return err
		}
	}

	_, err := to.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // an earlier try was not answered
	}

	return err
}

// written acts on the answer to an event that was sent.
func (r *Recorder) written(c *slot, e *event, s series, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()

	r.writes--
	c.writing = false
	defer r.wakeWriter()

	now, latest := time.Now(), c.event == e
	lost := ""
	switch {
	case err == nil:
		remember(r.series, c.key, s)
		c.tries, c.due = 0, s.rests()
	case isRefused(err):
		lost = lostRefused // and counts as recorded: the next try would be refused, too
	case !latest:
		e.forget() // the later one takes its place, and its delay
	case r.draining:
		lost = lostEnded
	case r.now().Sub(e.at) >= keptFor:
		lost = lostOutdated
		e.forget()
	}

	if lost != "" {
		r.Metrics.eventsLost.WithLabelValues(lost).Inc()
		r.log.Error(err, "Could not write an event, gave up", append([]any{"cause", lost}, e.lineKeys()...)...)
	}

	switch {
	case latest && (err == nil || lost != ""):
		r.store.remove(c)
	case err != nil && lost == "":
		c.due = now.Add(min(longestRetry, time.Second<<min(c.tries, 6)))
		c.tries++
	}
}

// isRefused reports whether the API server answered that it does not take what it was sent.
func isRefused(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !IsTransient(err)
}

// IsTransient reports whether the API server did not answer, or with an error that may be over soon. What it refuses,
// it would refuse again.
func IsTransient(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || apierrors.IsConflict(err)
	}

	var unanswered *url.Error
	gaveUp := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)

	return gaveUp || errors.As(err, &unanswered) || errors.Is(err, io.ErrUnexpectedEOF)
}

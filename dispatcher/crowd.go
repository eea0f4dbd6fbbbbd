package dispatcher

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// crowd lets those who wait go before the records of what has ended. A claim waits until it is bound, a volume that is to be
// deleted until it is gone; what has to be written after that is seen by nobody, and in a burst it would slow the API server
// down for those who wait. It is memory only: after a restart it begins anew.
type crowd struct {
	wake func(uid string)

	mu    sync.Mutex
	lines map[string]*line // by class
	left  int              // how many records are left
	ended map[string]int   // of how many pods, by node; empty for none
}

// line is who waits of a class, and whose records were left for their sake.
type line struct {
	waiting map[string]bool // UIDs
	left    map[string]leftover
}

// leftover are a UID's records.
type leftover struct {
	until time.Time
	node  string
}

// While somebody of the class waits, records are left for tidyAfter, or in a burst, when more than tidyMany wait or have been
// left, for tidyWithin: those who wait get the API server to themselves, and one claim that waits for ever does not keep
// everybody's pods. An ended pod costs its node little, and not nothing: a node is spared more of them than it may run by
// default. Of all classes no more than tidyAtMost are left: where a cluster has more than 12,500 ended pods, Kubernetes
// deletes the oldest, whosever they are (--terminated-pod-gc-threshold).
const (
	tidyAfter  = 20 * time.Second
	tidyMany   = 100
	tidyWithin = 10 * time.Minute
	tidyOnNode = 110
	tidyAtMost = 8000
)

func newCrowd(wake func(uid string)) *crowd {
	return &crowd{wake: wake, lines: map[string]*line{}, ended: map[string]int{}}
}

// note says whether somebody waits for what is done for the UID.
func (c *crowd) note(class, uid string, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[class]
	if !waits {
		c.serve(l, uid)
		return
	}
	if l == nil {
		l = &line{waiting: map[string]bool{}, left: map[string]leftover{}}
		c.lines[class] = l
	}
	l.waiting[uid] = true
	c.drop(l, uid)
}

// serve is called with mu held. The last who waits no more wakes all whose records were left.
func (c *crowd) serve(l *line, uid string) {
	if l == nil || !l.waiting[uid] {
		return
	}
	delete(l.waiting, uid)
	if len(l.waiting) > 0 {
		return
	}
	for _, left := range slices.Sorted(maps.Keys(l.left)) {
		c.wake(left)
	}
}

// hold is until when the records of the UID, whose pod ended on the node, are left while others wait; zero if they are not.
// A pod that never was on a node burdens none.
func (c *crowd) hold(class, uid, node string, now time.Time) (until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[class]
	if l == nil || len(l.waiting) == 0 {
		return time.Time{}
	}
	r, left := l.left[uid]
	if !left {
		if c.left >= tidyAtMost || node != "" && c.ended[node] >= tidyOnNode {
			return time.Time{}
		}
		r = leftover{until: now.Add(l.patience()), node: node}
		l.left[uid] = r
		c.left++
		c.ended[node]++
	}
	if !now.Before(r.until) {
		return time.Time{}
	}
	return r.until
}

// patience is for how long one more UID's records are left. It is called with mu held.
func (l *line) patience() time.Duration {
	if len(l.waiting)+len(l.left) > tidyMany {
		return tidyWithin
	}
	return tidyAfter
}

// drop is called with mu held.
func (c *crowd) drop(l *line, uid string) {
	r, left := l.left[uid]
	if !left {
		return
	}
	delete(l.left, uid)
	c.left--
	c.ended[r.node]--
	if c.ended[r.node] == 0 {
		delete(c.ended, r.node)
	}
}

// forget ends what is known of a UID. A claim that waits may be forgotten too, until it is handed over: nobody would look
// at it when it is gone.
func (c *crowd) forget(class, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.lines[class]
	if l == nil {
		return
	}
	c.serve(l, uid)
	c.drop(l, uid)
	if len(l.waiting)+len(l.left) == 0 {
		delete(c.lines, class)
	}
}

// awaited says that somebody waits for what is done here: for a volume, or for its end.
func (f *facts) awaited() bool {
	return f.waiting() || f.volume != nil && awaitsDeletion(f.volume)
}

// tidies says that a plan does nothing but end attempts, for which nobody waits. What is said, looked up or looked at again
// beside that does not count.
func (p *plan) tidies() bool {
	rest := *p
	rest.settle, rest.reports, rest.check, rest.forget, rest.again = nil, nil, false, false, time.Time{}
	return len(p.settle) > 0 && reflect.DeepEqual(rest, plan{})
}

// yield lets others of the class go first, if there are any. A pod that somebody deletes is waited for by whoever does. After
// an expansion the next one waits for its records.
func (d *Dispatcher) yield(f *facts, p *plan) {
	waits := f.awaited()
	d.crowd.note(f.class, f.uid, waits)
	if waits || !p.tidies() || len(f.of(contract.Expand)) > 0 || slices.ContainsFunc(p.settle, isDeleted) {
		return
	}
	until := d.crowd.hold(f.class, f.uid, p.settle[0].Spec.NodeName, f.now)
	if until.IsZero() {
		return
	}
	p.settle, p.check, p.forget = nil, false, false
	p.look(until)
}

func isDeleted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

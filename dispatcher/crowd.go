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

	mu      sync.Mutex
	waiting map[string]map[string]bool      // UIDs by class
	held    map[string]map[string]time.Time // by class, UIDs whose records were left, and until when at most
}

// tidyWithin bounds how long the records of an attempt are left for the sake of others of its class.
const tidyWithin = 20 * time.Second

func newCrowd(wake func(uid string)) *crowd {
	return &crowd{wake: wake, waiting: map[string]map[string]bool{}, held: map[string]map[string]time.Time{}}
}

// note says whether somebody waits for what is done for the UID.
func (c *crowd) note(class, uid string, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !waits {
		c.leave(class, uid)
		return
	}
	if c.waiting[class] == nil {
		c.waiting[class] = map[string]bool{}
	}
	c.waiting[class][uid] = true
}

// leave is called with mu held. The last of a class who waits no more wakes all whose records were left.
func (c *crowd) leave(class, uid string) {
	if !c.waiting[class][uid] {
		return
	}
	delete(c.waiting[class], uid)
	if len(c.waiting[class]) > 0 {
		return
	}
	delete(c.waiting, class)
	for _, held := range slices.Sorted(maps.Keys(c.held[class])) {
		c.wake(held)
	}
}

// hold is until when the records of the UID are left, because others of its class wait; zero if none does, or if they were
// left long enough.
func (c *crowd) hold(class, uid string, now time.Time) (until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting[class]) == 0 {
		return time.Time{}
	}
	if c.held[class] == nil {
		c.held[class] = map[string]time.Time{}
	}
	until, known := c.held[class][uid]
	if !known {
		until = now.Add(tidyWithin)
		c.held[class][uid] = until
	}
	if !now.Before(until) {
		return time.Time{}
	}
	return until
}

// forget ends what is known of a UID. A claim that waits may be forgotten too, until it is handed over: nobody would look
// at it when it is gone.
func (c *crowd) forget(class, uid string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(class, uid)
	delete(c.held[class], uid)
	if len(c.held[class]) == 0 {
		delete(c.held, class)
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
	until := d.crowd.hold(f.class, f.uid, f.now)
	if until.IsZero() {
		return
	}
	p.settle, p.check, p.forget = nil, false, false
	p.look(until)
}

func isDeleted(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

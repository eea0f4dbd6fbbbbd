package dispatcher

import (
	"sync"
	"time"
)

// slots keeps max-concurrent of every class exactly: at most so many pods of it that have not ended. Who finds no slot
// waits, and is woken when one is free: the namespace that has the fewest goes first, among equals they take turns, and
// within a namespace it is first come, first served. The slot is kept for who was woken until the look that follows, and
// who makes no use of it then, because of an error for instance, keeps its place.
type slots struct {
	wake func(uid string)

	mu      sync.Mutex
	classes map[string]*classSlots // those of which something has a slot or waits
}

type classSlots struct {
	taken map[string]string // namespaces of pods, by the pods' names
	held  map[string]int    // slots that are taken by, or kept for, each namespace
	kept  int               // slots that are kept
	waits map[string]*wait  // UIDs that found no slot and have had none since
	queue turns
}

// wait is a UID's wait for a slot.
type wait struct {
	ticket
	woken  bool      // a slot is kept
	tellAt time.Time // when its user is told
}

// A wait is told of after tellWaitAfter. The more are served before it the later, so that of a class no more than ten a
// second are told, and in a burst that goes fast nobody is: each event is a write.
const (
	tellWaitAfter = 10 * time.Second
	tellWaitEach  = 100 * time.Millisecond
)

func newSlots(wake func(uid string)) *slots {
	return &slots{wake: wake, classes: map[string]*classSlots{}}
}

// of is called with mu held. Who changes a class calls tidy after that.
func (s *slots) of(class string) *classSlots {
	c, ok := s.classes[class]
	if !ok {
		c = &classSlots{taken: map[string]string{}, held: map[string]int{}, waits: map[string]*wait{}}
		s.classes[class] = c
	}
	return c
}

// tidy is called with mu held.
func (s *slots) tidy(class string) {
	if c, ok := s.classes[class]; ok && len(c.taken)+len(c.waits) == 0 {
		delete(s.classes, class)
	}
}

// full says that there is no slot for the pod, how many are taken or kept, and when who waits is told. With limit 0 there
// is always one. Otherwise uid waits from now on.
func (s *slots) full(class, namespace, uid, pod string, limit int) (used int, tellAt time.Time, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tidy(class)
	c := s.of(class)
	if c.has(uid, pod, limit) {
		return 0, time.Time{}, false
	}
	w := c.enqueue(namespace, uid)
	return len(c.taken) + c.kept, w.tellAt, true
}

// take occupies a slot for the pod, or says that there is none.
func (s *slots) take(class, namespace, uid, pod string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	if !c.has(uid, pod, limit) {
		c.enqueue(namespace, uid)
		return false
	}
	if _, taken := c.taken[pod]; !taken {
		c.taken[pod] = namespace
		c.held[namespace]++
	}
	c.leave(uid, true)
	return true
}

// has says that there is a slot for the pod. It is called with mu held.
func (c *classSlots) has(uid, pod string, limit int) bool {
	kept := c.kept
	if w, waits := c.waits[uid]; waits && w.woken {
		kept = 0 // those that were woken are as many as the free slots, unless the limit fell
	}
	_, taken := c.taken[pod]
	return limit == 0 || taken || len(c.taken)+kept < limit
}

// enqueue is called with mu held.
func (c *classSlots) enqueue(namespace, uid string) *wait {
	w, waits := c.waits[uid]
	if waits {
		c.unkeep(w)
		c.queue.back(w.ticket, uid)
		return w
	}
	ahead := c.queue.ahead(namespace)
	w = &wait{ticket: c.queue.enter(namespace, uid), tellAt: time.Now().Add(tellWaitAfter + time.Duration(ahead)*tellWaitEach)}
	c.waits[uid] = w
	return w
}

// unkeep is called with mu held. It says whether a slot was kept.
func (c *classSlots) unkeep(w *wait) bool {
	if !w.woken {
		return false
	}
	w.woken = false
	c.kept--
	c.drop(w.namespace)
	return true
}

// drop takes a slot from what a namespace holds. It is called with mu held.
func (c *classSlots) drop(namespace string) {
	c.held[namespace]--
	if c.held[namespace] == 0 {
		delete(c.held, namespace)
	}
}

// leave is called with mu held. It says whether a slot was kept.
func (c *classSlots) leave(uid string, served bool) bool {
	w, waits := c.waits[uid]
	if !waits {
		return false
	}
	kept := c.unkeep(w)
	c.queue.leave(w.ticket, served)
	delete(c.waits, uid)
	return kept
}

// free gives the pod's slot back and wakes who is next. It says whether the pod had one.
func (s *slots) free(class, pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tidy(class)
	c := s.of(class)
	namespace, taken := c.taken[pod]
	if !taken {
		return false
	}
	delete(c.taken, pod)
	c.drop(namespace)
	s.next(c)
	return true
}

// isKept says that a slot is kept for the UID. It is asked before a look: one in whose midst it is woken is followed by
// another.
func (s *slots) isKept(class, uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.classes[class]
	return ok && c.waits[uid] != nil && c.waits[uid].woken
}

// looked is called after the look for which a slot was kept. One that had no use for it, since its claim is gone for
// instance, must not keep it from the others.
func (s *slots) looked(class, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, ok := s.classes[class]
	if !ok {
		return
	}
	if w, waits := c.waits[uid]; waits && c.unkeep(w) {
		s.next(c)
	}
}

// forget ends the wait of a UID that is forgotten: a wake-up would not reach it.
func (s *slots) forget(class, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.tidy(class)
	if c := s.of(class); c.leave(uid, false) {
		s.next(c)
	}
}

// next is called with mu held.
func (s *slots) next(c *classSlots) {
	uid, p, ok := c.queue.call(func(namespace string) int { return c.held[namespace] })
	if !ok {
		return
	}
	c.waits[uid].woken = true
	c.kept++
	c.held[p.namespace]++
	s.wake(uid)
}

// count is how many slots of the class are taken.
func (s *slots) count(class string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.classes[class]; ok {
		return len(c.taken)
	}
	return 0
}

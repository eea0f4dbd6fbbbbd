package dispatcher

import (
	"cmp"
	"slices"
	"sync"
)

// slots keeps max-concurrent of every class exactly: at most so many pods of it that have not ended. Who finds no slot
// waits in line, first come first served, and is woken when one is free. The slot is kept for who was woken until the look
// that follows, and who makes no use of it then, because of an error for instance, keeps its place.
type slots struct {
	wake func(uid string)

	mu      sync.Mutex
	classes map[string]*classSlots
}

type classSlots struct {
	taken   map[string]bool   // pod names
	line    []string          // UIDs that wait, by their tickets
	woken   map[string]bool   // UIDs for which a slot is kept
	tickets map[string]uint64 // of UIDs that found no slot and have had none since
	last    uint64
}

func newSlots(wake func(uid string)) *slots {
	return &slots{wake: wake, classes: map[string]*classSlots{}}
}

// of is called with mu held. Only take remembers a class.
func (s *slots) of(class string) *classSlots {
	if c, ok := s.classes[class]; ok {
		return c
	}
	return &classSlots{taken: map[string]bool{}, woken: map[string]bool{}, tickets: map[string]uint64{}}
}

// end forgets a class of which there is nothing left.
func (s *slots) end(class string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.of(class); len(c.taken)+len(c.line)+len(c.woken)+len(c.tickets) == 0 {
		delete(s.classes, class)
	}
}

// take occupies a slot for the pod. With limit 0 there is always one. Otherwise uid is put in line.
func (s *slots) take(class, pod, uid string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	s.classes[class] = c
	kept := len(c.woken)
	if c.woken[uid] {
		kept = 0 // those that were woken are as many as the free slots, unless the limit fell
	}
	if limit > 0 && !c.taken[pod] && len(c.taken)+kept >= limit {
		c.queue(uid)
		return false
	}
	c.taken[pod] = true
	c.leave(uid)
	return true
}

// queue is called with mu held.
func (c *classSlots) queue(uid string) {
	delete(c.woken, uid)
	if c.tickets[uid] == 0 {
		c.last++
		c.tickets[uid] = c.last
	}
	if at, found := c.place(uid); !found {
		c.line = slices.Insert(c.line, at, uid)
	}
}

// place is where in the line a UID with a ticket is, or belongs. It is called with mu held.
func (c *classSlots) place(uid string) (int, bool) {
	return slices.BinarySearchFunc(c.line, c.tickets[uid], func(other string, ticket uint64) int {
		return cmp.Compare(c.tickets[other], ticket)
	})
}

// leave is called with mu held.
func (c *classSlots) leave(uid string) {
	delete(c.woken, uid)
	if at, found := c.place(uid); found {
		c.line = slices.Delete(c.line, at, at+1)
	}
	delete(c.tickets, uid)
}

// free gives the pod's slot back and wakes the first in line. It says whether the pod had one.
func (s *slots) free(class, pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	if !c.taken[pod] {
		return false
	}
	delete(c.taken, pod)
	s.next(c)
	return true
}

// isKept says that a slot is kept for the UID. It is asked before a look: one in whose midst it is woken is followed by
// another.
func (s *slots) isKept(class, uid string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of(class).woken[uid]
}

// looked is called after the look for which a slot was kept. One that had no use for it, since its claim is gone for
// instance, must not keep it from the others.
func (s *slots) looked(class, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.of(class); c.woken[uid] {
		delete(c.woken, uid)
		s.next(c)
	}
}

// forget takes a UID out of line that is forgotten: a wake-up would not reach it.
func (s *slots) forget(class, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	woken := c.woken[uid]
	c.leave(uid)
	if woken {
		s.next(c)
	}
}

// next is called with mu held.
func (s *slots) next(c *classSlots) {
	if len(c.line) == 0 {
		return
	}
	uid := c.line[0]
	c.line = c.line[1:]
	c.woken[uid] = true
	s.wake(uid)
}

// count is how many slots of the class are taken.
func (s *slots) count(class string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of(class).taken)
}

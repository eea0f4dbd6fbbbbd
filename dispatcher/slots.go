package dispatcher

import (
	"slices"
	"sync"
)

// slots keeps max-concurrent of every class exactly: at most so many pods of it that have not ended. Who finds no slot
// waits in line, first come first served, and is woken when one is free.
type slots struct {
	wake func(uid string)

	mu      sync.Mutex
	classes map[string]*classSlots
}

type classSlots struct {
	taken map[string]bool // pod names
	line  []string        // UIDs that wait
	woken map[string]bool // UIDs that were woken and have not had their look
}

func newSlots(wake func(uid string)) *slots {
	return &slots{wake: wake, classes: map[string]*classSlots{}}
}

// of is called with mu held.
func (s *slots) of(class string) *classSlots {
	c, ok := s.classes[class]
	if !ok {
		c = &classSlots{taken: map[string]bool{}, woken: map[string]bool{}}
		s.classes[class] = c
	}
	return c
}

// take occupies a slot for the pod. With limit 0 there is always one. Otherwise uid is put in line.
func (s *slots) take(class, pod, uid string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	if limit > 0 && !c.taken[pod] && len(c.taken) >= limit {
		if !slices.Contains(c.line, uid) {
			c.line = append(c.line, uid)
		}
		return false
	}
	c.taken[pod] = true
	return true
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

// looked is called after every look at a UID. One that was woken and had no use for the slot, since its claim is gone for
// instance, must not keep it from the others.
func (s *slots) looked(class, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	if c.woken[uid] {
		delete(c.woken, uid)
		if len(c.line) > 0 && !slices.Contains(c.line, uid) {
			s.next(c)
		}
	}
}

// leave takes a UID out of line that is forgotten: a wake-up would not reach it.
func (s *slots) leave(class, uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.of(class)
	c.line = slices.DeleteFunc(c.line, func(other string) bool { return other == uid })
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

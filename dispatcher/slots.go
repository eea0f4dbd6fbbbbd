package dispatcher

import "sync"

// slots keeps max-concurrent of every class exactly: at most so many pods of it that have not ended. Who finds no slot
// waits in line, first come first served, and is woken when one is free.
type slots struct {
	wake func(uid string)

	mu      sync.Mutex
	taken   map[string]map[string]bool // class -> pod names
	waiting map[string][]string        // class -> UIDs in line
}

func newSlots(wake func(uid string)) *slots {
	return &slots{wake: wake, taken: map[string]map[string]bool{}, waiting: map[string][]string{}}
}

// take occupies a slot for the pod. With limit 0 there is always one. Otherwise uid is put in line.
func (s *slots) take(class, pod, uid string, limit int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if limit > 0 && !s.taken[class][pod] && len(s.taken[class]) >= limit {
		for _, w := range s.waiting[class] {
			if w == uid {
				return false
			}
		}
		s.waiting[class] = append(s.waiting[class], uid)
		return false
	}
	if s.taken[class] == nil {
		s.taken[class] = map[string]bool{}
	}
	s.taken[class][pod] = true
	return true
}

// free gives the pod's slot back and wakes the first in line. It says whether the pod had one.
func (s *slots) free(class, pod string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.taken[class][pod] {
		return false
	}
	delete(s.taken[class], pod)
	if line := s.waiting[class]; len(line) > 0 {
		s.waiting[class] = line[1:]
		s.wake(line[0])
	}
	return true
}

// count is how many slots of the class are taken.
func (s *slots) count(class string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.taken[class])
}

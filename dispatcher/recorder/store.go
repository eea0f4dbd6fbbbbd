package recorder

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// maxPending is how many events wait to be written at most. They take about a kilobyte each, two of a long message.
const maxPending = 20_000

// maxCrowd is how many events wait while one that can wait is still added, and putOffFor is after what time it is
// recorded otherwise.
const (
	maxCrowd  = 200
	putOffFor = 30 * time.Second
)

// key is what the latest event is kept of: an object and a reason.
type key struct {
	kind, namespace, name, uid string
	reason                     podspec.Reason
	// of tells events of one reason about one object apart, where each of them counts.
	of string
}

func keyOf(about corev1.ObjectReference, reason podspec.Reason, of string) key {
	return key{about.Kind, about.Namespace, about.Name, string(about.UID), reason, of}
}

// object is the part of a key that names the object.
func (k key) object() key {
	k.reason, k.of = "", ""
	return k
}

// event is one that is to be written. What was put into a store is changed by completeLog alone.
type event struct {
	about   corev1.ObjectReference
	reason  podspec.Reason
	warning bool
	message string
	at      time.Time // the API server's
	// log is what to add of a pod's log before the event is written.
	log PodLog
	// forget takes back that the event counts as recorded. It is called with the recorder's mu held.
	forget func()
	// line are the keys and values of its log line.
	line []any
}

// slot holds the latest event of a key until it is written.
type slot struct {
	key    key
	event  *event
	number int // in order of arrival
	turn   int // of its object
	due    time.Time
	// logBy is when the event stops waiting for the pod's log.
	logBy time.Time
	tries int
	// reading and writing report what is under way.
	reading, writing bool
}

// waitsUntil is when a slot's event can be written at the latest, if nothing is under way.
func (c *slot) waitsUntil() time.Time {
	if c.event.log.Read != nil && c.logBy.After(c.due) {
		return c.logBy
	}

	return c.due
}

// wantsLog reports whether the event still waits for the log of a pod.
func (c *slot) wantsLog(now time.Time) bool { return c.event.log.Read != nil && now.Before(c.logBy) }

// before reports whether a slot's event is written before another one's: warnings first, and objects in turn.
func (c *slot) before(other *slot) bool {
	switch {
	case c.event.warning != other.event.warning:
		return c.event.warning
	case c.turn != other.turn:
		return c.turn < other.turn
	}

	return c.number < other.number
}

// store is the bounded store of events that wait to be written: the latest for each key. It never waits, and has no
// lock.
type store struct {
	slots map[key]*slot
	order []*slot // by arrival
	// lines are the objects that have slots.
	lines map[key]line
	// turn is that of the slot that was taken last, and arrivals counts slots.
	turn, arrivals int
}

// line is how many slots an object has, and the turn of its last one.
type line struct{ slots, turn int }

// put adds an event. It is not written before due. replaced is an earlier event of its key, which is no longer written.
// evicted is an event that had to make room: the oldest Normal one, or if there is none the oldest warning.
func (s *store) put(k key, e *event, now, due time.Time) (replaced, evicted *event) {
	if c := s.slots[k]; c != nil {
		if c.event.log.Read == nil {
			c.logBy = now.Add(logWithin) // else the earlier event waits already
		}

		if !c.writing {
			replaced = c.event
		}

		c.event = e

		return replaced, nil
	}

	if len(s.order) >= maxPending {
		evicted = s.evict(e)
		if evicted == e {
			return nil, e
		}
	}

	object := k.object()
	l := s.lines[object]
	if l.slots == 0 || l.turn < s.turn {
		l.turn = s.turn
	} else {
		l.turn++
	}

	l.slots++
	s.lines[object] = l

	s.arrivals++
	c := &slot{key: k, event: e, number: s.arrivals, turn: l.turn, due: due, logBy: now.Add(logWithin)}
	s.slots[k] = c
	s.order = append(s.order, c)

	return nil, evicted
}

// crowded reports whether an event that can wait is not to be added.
func (s *store) crowded() bool { return len(s.order) >= maxCrowd }

// evict makes room for an event, and returns what has to go for it, which may be the event itself.
func (s *store) evict(e *event) *event {
	i := slices.IndexFunc(s.order, func(c *slot) bool { return !c.writing && !c.event.warning })
	if i < 0 && e.warning {
		i = slices.IndexFunc(s.order, func(c *slot) bool { return !c.writing })
	}

	if i < 0 {
		return e
	}

	c := s.order[i]
	s.remove(c)

	return c.event
}

func (s *store) remove(c *slot) {
	i, _ := slices.BinarySearchFunc(s.order, c.number, func(c *slot, number int) int { return c.number - number })
	s.order = slices.Delete(s.order, i, i+1)
	delete(s.slots, c.key)

	object := c.key.object()
	l := s.lines[object]
	l.slots--
	s.lines[object] = l
	if l.slots == 0 {
		delete(s.lines, object)
	}
}

// next takes the slot whose event is to be written now, nil for none. again is when the next event is due, zero where
// none waits for a time.
func (s *store) next(now time.Time) (best *slot, again time.Time) {
	for _, c := range s.order {
		if c.writing {
			continue
		}

		at := c.waitsUntil()
		switch {
		case !now.Before(at):
			if best == nil || c.before(best) {
				best = c
			}
		case again.IsZero() || at.Before(again):
			again = at
		}
	}

	if best != nil {
		best.writing = true
		s.turn = max(s.turn, best.turn)
	}

	return best, again
}

// nextLog takes the slot whose pod's log is to be read now, nil for none. One log is read from each node at a time: a
// kubelet that does not answer holds up the logs of its own pods alone. busy are the nodes from which one is being
// read.
func (s *store) nextLog(now time.Time, busy map[string]bool) *slot {
	for _, c := range s.order {
		underWay := c.reading || c.writing
		if underWay || !c.wantsLog(now) {
			continue
		}

		if !busy[c.event.log.Pod.Spec.NodeName] {
			c.reading = true
			return c
		}
	}

	return nil
}

// awaitsLog reports whether an event waits for the log of a pod.
func (s *store) awaitsLog(pod *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(s.order, func(c *slot) bool {
		return c.wantsLog(now) && c.event.log.Pod.UID == pod.UID
	})
}

// hurry makes everything due that waits for a time, and leaves logs a second yet.
func (s *store) hurry(now time.Time) {
	for _, c := range s.order {
		if c.due.After(now) {
			c.due = now
		}

		if last := now.Add(time.Second); c.logBy.After(last) {
			c.logBy = last
		}
	}
}

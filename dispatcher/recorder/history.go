package recorder

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// history is which events about one object were recorded, and when.
type history struct {
	events map[identity]time.Time
	// warned reports whether a warning was among them. It stays when they are forgotten.
	warned bool
	// version of the ConfigMap that they are about.
	version string
}

// identity tells the events of an object's history apart. One on another object, or with another reason, is another
// event, whatever its key. Only the first podspec.MaxEvent bytes of a key count, as of an event's message.
type identity struct {
	on     events.Target
	reason podspec.Reason
	key    string
}

func identityOf(e events.Event) identity {
	return identity{on: e.On, reason: e.Reason, key: podspec.Clip(e.Key, podspec.MaxEvent)}
}

// maxEvents is how many events of an object are remembered. Beyond that an event may be recorded twice.
const maxEvents = 100

// due reports whether an event has to be recorded: it was not recorded before or, if it persists, not within
// RemindAfter. It counts as recorded from then on.
func (h *history) due(id identity, now time.Time, persists bool) bool {
	if last, found := h.events[id]; found && (!persists || now.Sub(last) < RemindAfter) {
		return false
	}

	if len(h.events) >= maxEvents || h.events == nil {
		h.events = map[identity]time.Time{}
	}

	h.events[id] = now

	return true
}

// forget takes back that an event was recorded, unless it was recorded again since.
func (h *history) forget(id identity, at time.Time) {
	if last, found := h.events[id]; found && last.Equal(at) {
		delete(h.events, id)
	}
}

// again is when an event that persists is due again. recorded reports whether it was recorded.
func (h *history) again(id identity) (at time.Time, recorded bool) {
	last, recorded := h.events[id]
	return last.Add(RemindAfter), recorded
}

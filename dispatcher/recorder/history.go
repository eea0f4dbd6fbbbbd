package recorder

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// history is which events about one object were recorded, and when. There may be one of each of ten thousand claims, so
// that it is small.
type history struct {
	events []recorded
	// warned reports whether a warning was among them. It stays when they are forgotten.
	warned bool
	// version of the ConfigMap that they are about.
	version string
}

type recorded struct {
	identity
	at time.Time
}

// identity tells the events of an object's history apart, by hashes. One on another object, or with another reason, is
// another event, whatever its key. Only the first podspec.MaxEvent bytes of a key count, as of an event's message.
type identity struct {
	event uint64
	// pod is what the key says before the first slash: of an event about a pod, the pod.
	pod uint64
}

func identityOf(e events.Event) identity {
	key := podspec.Clip(e.Key, podspec.MaxEvent)
	pod, _, _ := strings.Cut(key, "/")

	return identity{event: seeded(string(e.On), string(e.Reason), key), pod: seeded(pod)}
}

var seed = maphash.MakeSeed()

// seeded is a hash that nobody who writes texts can foresee.
func seeded(texts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, text := range texts {
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}

	return h.Sum64()
}

// maxEvents is how many events of an object are remembered. Beyond that an event may be recorded twice.
const maxEvents = 100

// find is where an event is, -1 where it was not recorded.
func (h *history) find(id identity) int {
	if h == nil {
		return -1
	}

	return slices.IndexFunc(h.events, func(r recorded) bool { return r.identity == id })
}

// due reports whether an event has to be recorded: it was not recorded before or, if it persists, not within
// RemindAfter. It counts as recorded from then on.
func (h *history) due(id identity, now time.Time, persists bool) bool {
	i := h.find(id)
	if i >= 0 && (!persists || now.Sub(h.events[i].at) < RemindAfter) {
		return false
	}

	if i >= 0 {
		h.events[i].at = now
		return true
	}

	if len(h.events) >= maxEvents {
		h.events = nil
	}

	h.events = append(h.events, recorded{id, now})

	return true
}

// forget takes back that an event was recorded, unless it was recorded again since.
func (h *history) forget(id identity, at time.Time) {
	if i := h.find(id); i >= 0 && h.events[i].at.Equal(at) {
		h.events = slices.Delete(h.events, i, i+1)
	}
}

// forgetPod forgets the events about a pod.
func (h *history) forgetPod(pod string) {
	of := seeded(pod)
	h.events = slices.DeleteFunc(h.events, func(r recorded) bool { return r.pod == of })
}

// again is when an event that persists is due again. recorded reports whether it was recorded.
func (h *history) again(id identity) (at time.Time, recorded bool) {
	i := h.find(id)
	if i < 0 {
		return at, false
	}

	return h.events[i].at.Add(RemindAfter), true
}

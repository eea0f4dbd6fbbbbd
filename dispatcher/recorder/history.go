package recorder

import (
	"time"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// history is which events about one object were recorded, and when.
type history struct {
	keys map[string]time.Time
	// warned reports whether a warning was among them. It stays when the keys are forgotten.
	warned bool
	// version of the ConfigMap that they are about.
	version string
}

// maxKeys is how many keys of an object are remembered. Beyond that an event may be recorded twice.
const maxKeys = 100

// due reports whether an event with the key has to be recorded: it was not recorded before or, if it persists, not
// within RemindAfter. It counts as recorded from then on. Only the first podspec.MaxEvent bytes of a key count, as of
// an event's message.
func (h *history) due(key string, now time.Time, persists bool) bool {
	key = podspec.Clip(key, podspec.MaxEvent)
	if last, found := h.keys[key]; found && (!persists || now.Sub(last) < RemindAfter) {
		return false
	}

	if len(h.keys) >= maxKeys || h.keys == nil {
		h.keys = map[string]time.Time{}
	}

	h.keys[key] = now

	return true
}

// forget takes back that an event was recorded, unless it was recorded again since.
func (h *history) forget(key string, at time.Time) {
	key = podspec.Clip(key, podspec.MaxEvent)
	if last, found := h.keys[key]; found && last.Equal(at) {
		delete(h.keys, key)
	}
}

// again is when an event with the key that persists is due again. recorded reports whether it was recorded.
func (h *history) again(key string) (at time.Time, recorded bool) {
	last, recorded := h.keys[podspec.Clip(key, podspec.MaxEvent)]
	return last.Add(RemindAfter), recorded
}

package cache

import "sync"

// internTable holds values that many objects have in common, by what they consist of, so that they are one in memory.
// When it is full, it forgets the values that nobody asked for since it was full the last time. So values that come
// once cannot drive out those that come all the time.
type internTable[K comparable, V any] struct {
	mu         sync.Mutex
	young, old map[K]V
	taken      int // by the young
}

const (
	// tableSize in bytes is for the young values of a table, and once more for the old ones. It is enough for some
	// hundred classes.
	tableSize = 128 << 10
	// longest in bytes is what is shared: who has more to say than that is alone with it.
	longest = 4 << 10
)

// share returns the first value that was shared with the key. size is about what both take in bytes.
func (t *internTable[K, V]) share(key K, size int, value V) V {
	if size > longest {
		return value
	}

	t.mu.Lock()
	defer t.mu.Unlock()

	if known, ok := t.young[key]; ok {
		return known
	}

	if known, ok := t.old[key]; ok {
		value = known
	}

	if t.young == nil || t.taken+size > tableSize {
		t.young, t.old, t.taken = map[K]V{}, t.young, 0
	}

	t.young[key] = value
	t.taken += size

	return value
}

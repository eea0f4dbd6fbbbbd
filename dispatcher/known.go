package dispatcher

import "sync"

// known are the UIDs that have anything going on, so that a change of a class's ConfigMap reaches them all. Queues ask with
// their locks held, so that nothing is called with this one's.
type known struct {
	mu      sync.Mutex
	byUID   map[string]subject
	byClass map[string]int // how many
}

// subject is what is known of a UID. Its namespace is the claim's.
type subject struct {
	class, namespace string
	fresh            bool // it was added, and nobody has looked at it
}

// note makes the UID known, and returns what is known of it: what it came with first stays.
func (k *known) note(uid string, s subject) subject {
	k.mu.Lock()
	defer k.mu.Unlock()
	if before, ok := k.byUID[uid]; ok {
		return before
	}
	k.byUID[uid] = s
	k.byClass[s.class]++
	return s
}

func (k *known) get(uid string) (subject, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.byUID[uid]
	return s, ok
}

// of is the UID's namespace, and whether it is fresh.
func (k *known) of(uid string) (namespace string, fresh bool) {
	s, _ := k.get(uid)
	return s.namespace, s.fresh
}

// looked says that the UID is no longer fresh.
func (k *known) looked(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s, ok := k.byUID[uid]; ok && s.fresh {
		s.fresh = false
		k.byUID[uid] = s
	}
}

func (k *known) forget(uid string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.byUID[uid]
	if !ok {
		return
	}
	delete(k.byUID, uid)
	k.byClass[s.class]--
	if k.byClass[s.class] == 0 {
		delete(k.byClass, s.class)
	}
}

func (k *known) count(class string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.byClass[class]
}

// classes are those of all UIDs.
func (k *known) classes() map[string]string {
	k.mu.Lock()
	defer k.mu.Unlock()
	classes := make(map[string]string, len(k.byUID))
	for uid, s := range k.byUID {
		classes[uid] = s.class
	}
	return classes
}

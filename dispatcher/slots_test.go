package dispatcher

import (
	"slices"
	"strings"
	"testing"
)

// Each step is what a look or a pod does: "take UID" by a pod of its own, which fails with "waits", "free UID", "looked
// UID", "forget UID"; then the UIDs that are woken by it. The class has two slots. What follows a UID's number is its
// namespace.
func TestSlots(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"first come, first served", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "take 3", "free 2: 4", "take 4"}},
		{"a pod has one slot, however often it is seen", []string{"take 1", "take 2", "take 2", "take 1", "take 3 waits"}},
		{"and a claim one place in line", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "take 3 waits", "free 1: 3", "take 3", "free 2: 4"}},
		{"a slot is given back once", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "free 1"}},
		{"who comes meanwhile does not get a slot that is kept", []string{"take 1", "take 2", "take 3 waits", "free 1: 3", "take 4 waits", "looked 4", "take 3", "looked 3", "free 2: 4"}},
		{"who has no use for the slot leaves it to the next", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "looked 3: 4", "take 4", "looked 4"}},
		{"and keeps the place", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "take 5 waits", "free 1: 3", "looked 3: 4", "take 3 waits", "take 4", "free 4: 3"}},
		{"who is forgotten leaves it to the next", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "forget 3: 4"}},
		{"who is forgotten in line is not woken", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "forget 3", "free 1: 4"}},
		{"nobody else waits", []string{"take 1", "take 2", "take 3 waits", "free 1: 3", "looked 3", "take 4"}},
		{"a slot found without being woken", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "free 2: 4", "take 4", "take 3", "take 5 waits"}},
		{"namespaces take turns", []string{"take 1a", "take 2a", "take 3a waits", "take 4a waits", "take 5b waits", "free 1a: 5b", "take 5b", "free 2a: 3a", "take 3a", "free 5b: 4a"}},
		{"who has fewer pods goes first", []string{"take 1a", "take 2b", "take 3a waits", "take 4b waits", "free 2b: 4b", "take 4b", "free 1a: 3a"}},
		{"also if its pods end sooner", []string{"take 1a", "take 2b", "take 3a waits", "take 4b waits", "take 5b waits", "free 2b: 4b", "take 4b", "free 4b: 5b", "take 5b", "free 5b: 3a"}},
		{"a slot that is kept counts as its namespace's", []string{"take 1a", "take 2b", "take 3a waits", "take 4a waits", "take 5b waits", "free 1a: 3a", "free 2b: 5b"}},
		{"who could not use its turn has it again", []string{"take 1a", "take 2a", "take 3b waits", "take 4a waits", "take 5a waits", "free 1a: 3b", "looked 3b: 4a", "take 4a", "take 3b waits", "free 2a: 3b"}},
		{"and leaves it to the next of its namespace", []string{"take 1a", "take 2a", "take 3b waits", "take 4b waits", "take 5a waits", "free 1a: 3b", "looked 3b: 4b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var woken []string
			s := newSlots(func(uid string) { woken = append(woken, uid) })
			for _, step := range c.steps {
				words, want, _ := strings.Cut(step, ": ")
				woken = nil
				if got := doStep(s, strings.Fields(words)); got != strings.HasSuffix(words, " waits") || !slices.Equal(woken, strings.Fields(want)) {
					t.Fatalf("%s: waits %t, woken %q", step, got, woken)
				}
			}
			for _, n := range "123456" {
				for _, namespace := range []string{"", "a", "b"} {
					s.forget("a", string(n)+namespace)
					s.free("a", "pod-"+string(n)+namespace)
				}
			}
			if len(s.classes) != 0 {
				t.Errorf("of what is over there is left: %+v", s.classes["a"])
			}
		})
	}
}

// doStep says whether a take has to wait.
func doStep(s *slots, words []string) bool {
	switch uid := words[1]; words[0] {
	case "take":
		return !s.take("a", uid[1:], uid, "pod-"+uid, 2)
	case "free":
		s.free("a", "pod-"+uid)
	case "looked":
		s.looked("a", uid)
	case "forget":
		s.forget("a", uid)
	}
	return false
}

func TestSlotsOfClasses(t *testing.T) {
	s := newSlots(func(string) {})
	if !s.take("a", "team", "1", "pod-1", 1) || !s.take("b", "team", "2", "pod-2", 1) || s.take("b", "team", "3", "pod-3", 1) {
		t.Error("class b does not have one slot of its own")
	}
	for range 3 {
		if !s.take("c", "team", "4", "pod-4", 0) || !s.take("c", "team", "5", "pod-5", 0) {
			t.Error("a class without a limit has one")
		}
	}
	if a, c := s.count("a"), s.count("c"); a != 1 || c != 2 {
		t.Errorf("%d and %d slots taken, want 1 and 2", a, c)
	}
}

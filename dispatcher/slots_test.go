package dispatcher

import (
	"slices"
	"strings"
	"testing"
)

// Each step is what a look or a pod does: "take UID" by a pod of its own, which fails with "waits", "free UID", "looked
// UID", "forget UID"; then the UIDs that are woken by it. The class has two slots.
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
		})
	}
}

// doStep says whether a take has to wait.
func doStep(s *slots, words []string) bool {
	switch uid := words[1]; words[0] {
	case "take":
		return !s.take("a", "pod-"+uid, uid, 2)
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
	if !s.take("a", "pod-1", "1", 1) || !s.take("b", "pod-2", "2", 1) || s.take("b", "pod-3", "3", 1) {
		t.Error("class b does not have one slot of its own")
	}
	for range 3 {
		if !s.take("c", "pod-4", "4", 0) || !s.take("c", "pod-5", "5", 0) {
			t.Error("a class without a limit has one")
		}
	}
	if a, c := s.count("a"), s.count("c"); a != 1 || c != 2 {
		t.Errorf("%d and %d slots taken, want 1 and 2", a, c)
	}
}

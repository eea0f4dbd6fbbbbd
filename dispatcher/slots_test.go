package dispatcher

import (
	"slices"
	"testing"
)

func TestSlots(t *testing.T) {
	var woken []string
	s := newSlots(func(uid string) { woken = append(woken, uid) })
	take := func(uid string, want bool) {
		t.Helper()
		if got := s.take("a", "pod-"+uid, uid, 2); got != want {
			t.Fatalf("take for %s = %t, want %t", uid, got, want)
		}
	}
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(woken, want) {
			t.Fatalf("woken %q, want %q", woken, want)
		}
		woken = nil
	}
	take("1", true)
	take("2", true)
	take("2", true) // a pod has one slot, however often it is seen
	take("3", false)
	take("4", false)
	take("3", false) // and one place in line
	if !s.take("b", "pod-x", "x", 1) {
		t.Fatal("class b waits for class a")
	}
	if !s.free("a", "pod-1") || s.free("a", "pod-1") {
		t.Fatal("a slot is given back once")
	}
	expect("3")
	s.looked("a", "3") // claim 3 is gone and takes no slot
	expect("4")
	take("4", true)
	s.looked("a", "4")
	expect()
	take("5", false)
	s.free("a", "pod-2")
	expect("5")
	take("5", true)
	s.looked("a", "5")
	take("6", false)
	take("7", false)
	s.leave("a", "6") // claim 6 is forgotten: nothing would hear its wake-up
	s.free("a", "pod-4")
	expect("7")
	take("7", true)
	if got := s.count("a"); got != 2 {
		t.Fatalf("%d slots taken, want 2", got)
	}
}

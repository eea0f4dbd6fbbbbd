package queue

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each step is what a look or a pod does: "take UID" by a pod of its own, which fails with "waits", "free UID", "looked UID",
// "forget UID"; then the UIDs that are called by it. The class has two places. What follows a UID's number is its namespace.
func TestConcurrency(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"first come, first served", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "take 3", "free 2: 4", "take 4"}},
		{"a pod has one place, however often it is seen", []string{"take 1", "take 2", "take 2", "take 1", "take 3 waits"}},
		{"and a claim one place in line", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "take 3 waits", "free 1: 3", "take 3", "free 2: 4"}},
		{"a place is given back once", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "free 1"}},
		{"who comes meanwhile does not get a place that is kept", []string{"take 1", "take 2", "take 3 waits", "free 1: 3", "take 4 waits", "looked 4", "take 3", "looked 3", "free 2: 4"}},
		{"who has no use for the place leaves it to the next", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "looked 3: 4", "take 4", "looked 4"}},
		{"and keeps the place", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "take 5 waits", "free 1: 3", "looked 3: 4", "take 3 waits", "take 4", "free 4: 3"}},
		{"who is forgotten leaves it to the next", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "forget 3: 4"}},
		{"who is forgotten in line is not woken", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "forget 3", "free 1: 4"}},
		{"nobody else waits", []string{"take 1", "take 2", "take 3 waits", "free 1: 3", "looked 3", "take 4"}},
		{"a place found without being woken", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "free 2: 4", "take 4", "take 3", "take 5 waits"}},
		{"namespaces take turns", []string{"take 1a", "take 2a", "take 3a waits", "take 4a waits", "take 5b waits", "free 1a: 5b", "take 5b", "free 2a: 3a", "take 3a", "free 5b: 4a"}},
		{"who has fewer pods goes first", []string{"take 1a", "take 2b", "take 3a waits", "take 4b waits", "free 2b: 4b", "take 4b", "free 1a: 3a"}},
		{"also if its pods end sooner", []string{"take 1a", "take 2b", "take 3a waits", "take 4b waits", "take 5b waits", "free 2b: 4b", "take 4b", "free 4b: 5b", "take 5b", "free 5b: 3a"}},
		{"a place that is kept counts as its namespace's", []string{"take 1a", "take 2b", "take 3a waits", "take 4a waits", "take 5b waits", "free 1a: 3a", "free 2b: 5b"}},
		{"who could not use its turn has it again", []string{"take 1a", "take 2a", "take 3b waits", "take 4a waits", "take 5a waits", "free 1a: 3b", "looked 3b: 4a", "take 4a", "take 3b waits", "free 2a: 3b"}},
		{"and leaves it to the next of its namespace", []string{"take 1a", "take 2a", "take 3b waits", "take 4b waits", "take 5a waits", "free 1a: 3b", "looked 3b: 4b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(1, nil)
			for _, step := range c.steps {
				words, want, _ := strings.Cut(step, ": ")
				before := called(q)
				waits := doStep(q, strings.Fields(words))
				var woken []string
				for _, uid := range called(q) {
					if !slices.Contains(before, uid) {
						woken = append(woken, uid)
					}
				}
				if waits != strings.HasSuffix(words, " waits") || !slices.Equal(woken, strings.Fields(want)) {
					t.Fatalf("%s: waits %t, called %q", step, waits, woken)
				}
			}
			for _, n := range "123456" {
				for _, namespace := range []string{"", "a", "b"} {
					q.Forget(string(n)+namespace, false)
					q.Release("a", "pod-"+string(n)+namespace)
				}
			}
			if !q.EndClass("a") || len(q.classes)+len(q.items) != 0 {
				t.Errorf("of what is over there is left: %+v %+v", q.classes["a"], q.items)
			}
		})
	}
}

// called are the claims for which a place is kept, in order.
func called(q *Queue) (uids []string) {
	for uid, it := range q.items {
		if it.turn != nil && it.turn.called {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// doStep says whether a take has to wait.
func doStep(q *Queue, words []string) (waits bool) {
	switch uid := words[1]; words[0] {
	case "take":
		q.know("a", uid[1:], uid)
		return !q.Acquire("a", uid, "pod-"+uid, 2)
	case "free":
		q.Release("a", "pod-"+uid)
	case "looked":
		if uid := words[1]; q.begin("a", uid) || true {
			q.unused(uid)
		}
	case "forget":
		q.Forget(uid, false)
	}
	return false
}

// know is Add without a look.
func (q *Queue) know(class, namespace, uid string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.note(class, namespace, uid, false)
}

func TestConcurrencyOfClasses(t *testing.T) {
	q := New(1, nil)
	if !q.Acquire("a", "1", "pod-1", 1) || !q.Acquire("b", "2", "pod-2", 1) || q.Acquire("b", "3", "pod-3", 1) {
		t.Error("class b does not have one place of its own")
	}
	for range 3 {
		if !q.Acquire("c", "4", "pod-4", 0) || !q.Acquire("c", "5", "pod-5", 0) {
			t.Error("a class without a limit has one")
		}
	}
	if a, c := q.Pods("a"), q.Pods("c"); a != 1 || c != 2 {
		t.Errorf("%d and %d places taken, want 1 and 2", a, c)
	}
}

// A pod that is heard of has a place whatever the limit, until it has ended.
func TestPodChanged(t *testing.T) {
	q := New(1, nil)
	for range 2 {
		if q.PodChanged("a", "team", "1", "pod-1", false) || q.PodChanged("a", "team", "2", "pod-2", false) {
			t.Error("a pod that has not ended gave a place back")
		}
	}
	if used, _, full := q.Full("a", "3", "pod-3", 1); !full || used != 2 {
		t.Errorf("full: %t with %d, want with 2", full, used)
	}
	if !q.PodChanged("a", "team", "1", "pod-1", true) || q.PodChanged("a", "team", "1", "pod-1", true) {
		t.Error("the place is not given back once")
	}
}

// A claim that waits is told of it once it has waited for a while, and the later, the more go first.
func TestTellAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1, nil)
		defer q.Wait() // its queues end
		for _, uid := range []string{"1", "2"} {
			q.know("silver", "a", uid)
			if _, _, full := q.Full("silver", uid, "pod-"+uid, 2); full || !q.Acquire("silver", uid, "pod-"+uid, 2) {
				t.Fatalf("claim %s has to wait", uid)
			}
		}
		for _, c := range []struct {
			uid, namespace string
			after          time.Duration
		}{
			{"3", "a", 10 * time.Second},
			{"4", "a", 10100 * time.Millisecond},
			{"5", "a", 10200 * time.Millisecond},
			{"6", "b", 10100 * time.Millisecond},
			{"7", "b", 10200 * time.Millisecond},
			{"8", "a", 10500 * time.Millisecond},
		} {
			q.know("silver", c.namespace, c.uid)
			if _, tellAt, full := q.Full("silver", c.uid, "pod-"+c.uid, 2); !full || time.Until(tellAt) != c.after {
				t.Errorf("claim %s is told after %s, want %s", c.uid, time.Until(tellAt), c.after)
			}
		}
	})
}

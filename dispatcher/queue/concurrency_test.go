package queue

import (
	"strings"
	"testing"
	"time"
)

// Each step is what a look or a pod does: "take UID" by a pod of its own, which fails with "waits", "free UID", "looked UID" without
// asking for a slot, "forget UID"; then the UID that is requeued by it. The class has two slots. What follows a UID's number is its
// namespace.
func TestConcurrency(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"first come, first served", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "take 3", "free 2: 4", "take 4"}},
		{"a pod has one slot, however often it is seen", []string{"take 1", "take 2", "take 2", "take 1", "take 3 waits"}},
		{"and a claim one slot in line", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "take 3 waits", "free 1: 3", "take 3", "free 2: 4"}},
		{"a slot is given back once", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "free 1", "take 3", "take 4 waits"}},
		{"who comes meanwhile waits", []string{"take 1", "take 2", "take 3 waits", "free 1: 3", "take 4 waits", "looked 3: 4", "take 4"}},
		{"who has no use for the slot leaves it to the next", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "looked 3: 4", "take 4"}},
		{"and is last after that", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "take 5 waits", "free 1: 3", "looked 3: 4", "take 3 waits", "take 4", "free 4: 5"}},
		{"who is forgotten leaves it to the next", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "forget 3: 4"}},
		{"who is forgotten in line is not requeued", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "forget 3", "free 1: 4"}},
		{"nobody else waits", []string{"take 1", "take 2", "take 3 waits", "free 1: 3", "looked 3", "take 4"}},
		{"of two slots the second is for the second", []string{"take 1", "take 2", "take 3 waits", "take 4 waits", "free 1: 3", "free 2: 3", "take 4 waits", "take 3: 4", "take 4", "take 5 waits"}},
		{"namespaces take turns", []string{"take 1a", "take 2a", "take 3a waits", "take 4a waits", "take 5b waits", "free 1a: 5b", "take 5b", "free 2a: 3a", "take 3a", "free 5b: 4a"}},
		{"who has fewer pods goes first", []string{"take 1a", "take 2b", "take 3a waits", "take 4b waits", "free 2b: 4b", "take 4b", "free 1a: 3a"}},
		{"also if its pods end sooner", []string{"take 1a", "take 2b", "take 3a waits", "take 4b waits", "take 5b waits", "free 2b: 4b", "take 4b", "free 4b: 5b", "take 5b", "free 5b: 3a"}},
		{"equals take turns", []string{"take 1a", "take 2b", "take 3a waits", "take 4a waits", "take 5b waits", "free 1a: 3a", "free 2b: 3a", "take 3a: 5b", "take 5b", "free 3a: 4a"}},
		{"who had the slot goes last", []string{"take 1a", "take 2", "take 3a waits", "take 4b waits", "free 1a: 4b",
			"take 4b", "free 2: 3a"}},
		{"who could not use its turn has it again", []string{"take 1a", "take 2a", "take 3b waits", "take 4a waits", "take 5a waits", "free 1a: 3b", "looked 3b: 4a", "take 4a", "take 3b waits", "free 2a: 3b"}},
		{"and leaves it to the next of its namespace", []string{"take 1a", "take 2a", "take 3b waits", "take 4b waits", "take 5a waits", "free 1a: 3b", "looked 3b: 4b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(1, nil)
			for _, step := range c.steps {
				words, want, _ := strings.Cut(step, ": ")
				waits := doStep(q, strings.Fields(words))
				requeued := ""
				for work := q.class("a").work; work.Len() > 0; {
					uid, _ := work.Get()
					work.Done(uid)
					requeued += uid
				}

				if waits != strings.HasSuffix(words, " waits") || requeued != want {
					t.Fatalf("%s: waits %t, requeued %q", step, waits, requeued)
				}
			}

			for _, n := range "123456" {
				for _, namespace := range []string{"", "a", "b"} {
					q.Forget(string(n)+namespace, false)
					q.Release("pod-" + string(n) + namespace)
				}
			}

			if a := q.classes["a"]; len(a.line.waiting)+len(a.line.order)+a.line.length+len(a.slots) > 0 {
				t.Errorf("of what is over there is left: %+v", a)
			}

			if !q.EndClass("a") || len(q.classes)+len(q.items)+len(q.pods) != 0 {
				t.Errorf("of what is over there is left: %+v %+v", q.classes["a"], q.items)
			}
		})
	}
}

// doStep says whether a take has to wait.
func doStep(q *Queue, words []string) (waits bool) {
	switch uid := words[1]; words[0] {
	case "take":
		q.know("a", uid[1:], uid)
		return !acquire(q, "a", uid, 2)
	case "free":
		q.Release("pod-" + uid)
	case "looked":
		q.begin("a", uid, q.classes["a"].work)
		q.end(uid)
	case "forget":
		q.Forget(uid, false)
	}

	return false
}

func acquire(q *Queue, class, uid string, limit int) bool {
	_, _, ok := q.Acquire(class, uid, "pod-"+uid, limit, noon)
	return ok
}

// know is Add without a look.
func (q *Queue) know(class, namespace, uid string) {
	q.mu.Lock()
	defer q.mu.Unlock()

	q.ensureItem(class, namespace, uid, false)
}

func TestConcurrencyOfClasses(t *testing.T) {
	q := New(1, nil)
	if !acquire(q, "a", "1", 1) || !acquire(q, "b", "2", 1) || acquire(q, "b", "3", 1) {
		t.Error("class b does not have one slot of its own")
	}

	for range 3 {
		if !acquire(q, "c", "4", 0) || !acquire(q, "c", "5", 0) {
			t.Error("a class without a limit has one")
		}
	}

	if a, c := q.Pods()["a"], q.Pods()["c"]; a != 1 || c != 2 {
		t.Errorf("%d and %d slots taken, want 1 and 2", a, c)
	}
}

// A pod that is heard of has a slot whatever the limit, until it has ended.
func TestPodChanged(t *testing.T) {
	q := New(1, nil)
	for range 2 {
		if q.PodChanged("a", "team", "1", "pod-1", false) || q.PodChanged("a", "team", "2", "pod-2", false) {
			t.Error("a pod that has not ended gave a slot back")
		}
	}

	if used, _, ok := q.Acquire("a", "3", "pod-3", 1, noon); ok || used != 2 {
		t.Errorf("a slot is there: %t, of %d, want none of 2", ok, used)
	}

	if !q.PodChanged("a", "team", "1", "pod-1", true) || q.PodChanged("a", "team", "1", "pod-1", true) {
		t.Error("the slot is not given back once")
	}
}

// An image may write another class into its volume, by which a dispatcher that has restarted knows the claim, and so may another one order
// its pods. A pod has one slot, of the class that the claim came with, and gives that one back.
func TestPodOfAnotherClass(t *testing.T) {
	q := New(1, nil)
	q.know("a", "team", "1")
	for range 2 {
		q.PodChanged("b", "team", "1", "pod-1", false)
		if a, b := q.Pods()["a"], q.Pods()["b"]; a != 1 || b != 0 {
			t.Errorf("%d slots of class a and %d of class b are taken, want 1 and 0", a, b)
		}
	}

	if !q.PodChanged("b", "team", "1", "pod-1", true) || q.Pods()["a"] != 0 {
		t.Error("the slot is not given back")
	}

	if !acquire(q, "a", "2", 1) {
		t.Error("nobody else gets the slot")
	}
}

// A claim that waits is told of it once it has waited for a while, and the later, the more go first.
func TestTellAt(t *testing.T) {
	q := New(1, nil)
	defer q.Wait() // its queues end

	for _, uid := range []string{"1", "2"} {
		q.know("silver", "a", uid)
		if !acquire(q, "silver", uid, 2) {
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
		if _, reportAt, ok := q.Acquire("silver", c.uid, "pod-"+c.uid, 2, noon); ok || reportAt.Sub(noon) != c.after {
			t.Errorf("claim %s is told after %s, want %s", c.uid, reportAt.Sub(noon), c.after)
		}
	}
}

// A claim that is forgotten while a change of it is queued is known again without its namespace. It may stand in line by then when its
// namespace becomes known, and leaves the line all the same: what it left there would have every free slot.
func TestNamespaceKnownInLine(t *testing.T) {
	q := New(1, nil)
	defer q.Wait() // its queues end

	q.know("a", "team", "1")
	if !acquire(q, "a", "1", 1) {
		t.Fatal("claim 1 has to wait")
	}

	q.begin("a", "2", q.classes["a"].work)
	if acquire(q, "a", "2", 1) {
		t.Fatal("claim 2 does not wait")
	}

	q.Add("a", "team", "2")
	q.Release("pod-1")
	if !acquire(q, "a", "2", 1) {
		t.Fatal("claim 2 has to wait though the slot is free")
	}

	q.Release("pod-2")
	q.Forget("2", false)
	q.know("a", "team", "3")
	if !acquire(q, "a", "3", 1) {
		t.Errorf("claim 3 has to wait for ever: in line are %v", q.classes["a"].line.waiting)
	}
}

package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Each step is "waits UID", "served UID", "forget UID", or "defer UID" with the time until which the cleanup is deferred, or "now".
// What follows the colon are the claims that are woken.
func TestDeferCleanup(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []string
	}{
		{"nobody waits", []string{"0s defer x now"}},
		{"another class's claims are nothing to it", []string{"0s waits A", "0s defer x now"}},
		{"the last who is served wakes all", []string{"0s waits a", "0s defer x 20s", "0s waits b", "1s defer y 21s", "1s served a", "1s served b: x y", "1s defer x now", "1s served b"}},
		{"served is who waited", []string{"0s waits a", "0s defer x 20s", "0s served b", "0s defer x 20s", "0s waits a", "0s served a: x"}},
		{"while somebody waits, after a while", []string{"0s waits a", "0s defer x 20s", "19s defer x 20s", "20s defer x now", "20s defer x now"}},
		{"who waits again has nothing deferred", []string{"0s waits a", "0s defer x 20s", "0s waits x", "0s waits b", "0s served a", "1s served x", "1s defer x 21s", "1s served b: x"}},
		{"forgotten", []string{"0s waits a", "0s defer x 20s", "0s defer y 20s", "0s forget x", "0s forget a: y"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := New(1, nil)
			for _, step := range c.steps {
				words, want, _ := strings.Cut(step, ": ")
				f := strings.Fields(words)
				at, err := time.ParseDuration(f[0])
				if err != nil {
					t.Fatal(err)
				}

				woken := play(t, q, f[1], f[2], strings.Join(f[3:], ""), noon.Add(at))
				if woken != want {
					t.Errorf("%s: woken %q", step, woken)
				}
			}

			for uid := range q.items {
				q.Forget(uid, false)
			}

			if len(q.items)+len(q.ended)+q.deferred > 0 || !q.EndClass("lower") || !q.EndClass("upper") || len(q.classes) > 0 {
				t.Errorf("remembered at the end: %+v", q)
			}
		})
	}
}

// play does a step. Capitals are of another class.
func play(t *testing.T, q *Queue, verb, uid, until string, now time.Time) (woken string) {
	t.Helper()
	class := "lower"
	if uid < "a" {
		class = "upper"
	}

	q.know(class, "team", uid)
	work := q.classes[class].work
	for work.Len() > 0 {
		uid, _ := work.Get()
		work.Done(uid)
	}

	switch verb {
	case "waits", "served":
		q.UserWaits(uid, verb == "waits")
	case "forget":
		q.Forget(uid, false)
	case "defer":
		got := q.DeferCleanup(uid, "node1", now)
		if want := until; want == "now" && !got.IsZero() || want != "now" && got.Sub(noon).String() != want {
			t.Errorf("the cleanup of %s is deferred until %v, want %s", uid, got, want)
		}
	}

	var uids []string
	for work.Len() > 0 {
		uid, _ := work.Get()
		uids = append(uids, uid)
		work.Done(uid)
	}

	return strings.Join(uids, " ")
}

// In a burst cleanup is deferred for longer, but not for ever, nor any number of them.
func TestDeferInBurst(t *testing.T) {
	q := New(1, nil)
	until := func(class, uid, node string, now time.Time) time.Duration {
		q.know(class, "team", uid)
		if at := q.DeferCleanup(uid, node, now); !at.IsZero() {
			return at.Sub(noon)
		}

		return 0
	}
	want := func(uid string, want time.Duration) {
		t.Helper()
		if got := until("silver", uid, "", noon); got != want {
			t.Errorf("the cleanup of %s is deferred until %v, want %v", uid, got, want)
		}
	}
	waits := func(class, uid string, waits bool) {
		q.know(class, "team", uid)
		q.UserWaits(uid, waits)
	}
	for i := range burst - 1 {
		waits("silver", fmt.Sprint("a", i), true)
	}

	want("x0", deferFor)
	want("x1", deferFor)
	want("x2", deferInBurst)
	want("x0", deferFor)
	if got := until("silver", "x2", "", noon.Add(deferInBurst)); got != 0 {
		t.Errorf("after %v the cleanup is deferred until %v", deferInBurst, got)
	}

	waits("silver", "a0", false)
	want("x3", deferInBurst) // those that are deferred count as well: a burst may be served as fast as it comes
	q.Forget("x1", false)
	q.Forget("x2", false)
	want("x4", deferFor)
	waits("gold", "b", true)
	for i := q.deferred; i < deferAtMost; i++ {
		if until("gold", fmt.Sprint("z", i), "", noon) == 0 {
			t.Fatalf("%d cleanups are deferred, want %d", i, deferAtMost)
		}
	}

	if until("silver", "one more", "", noon) != 0 {
		t.Errorf("more than %d cleanups are deferred", deferAtMost)
	}

	waits("silver", "x0", true)
	if until("gold", "one more", "", noon) == 0 {
		t.Error("the place of one that is not deferred any more is not free")
	}
}

func TestDeferOnNode(t *testing.T) {
	q := New(1, nil)
	q.know("silver", "team", "a")
	q.UserWaits("a", true)
	deferred := func(uid, node string) bool {
		q.know("silver", "team", uid)
		return !q.DeferCleanup(uid, node, noon).IsZero()
	}
	for i := range deferOnNode {
		if !deferred(fmt.Sprint("x", i), "node1") {
			t.Fatalf("%d cleanups are deferred on a node, want %d", i, deferOnNode)
		}
	}

	if deferred("y", "node1") {
		t.Errorf("more than %d cleanups are deferred on a node", deferOnNode)
	}

	if !deferred("x0", "node1") || !deferred("y", "node2") || !deferred("z", "") {
		t.Error("what is deferred is not any more, or neither on another node, or on none")
	}

	q.Forget("x0", false)
	if !deferred("z1", "node1") {
		t.Error("the place on the node is not free again")
	}
}

package dispatcher

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A step of a class's course: somebody comes to wait or is served (or forgotten), or records are asked whether they may be
// left.
type crowdStep struct {
	at            time.Duration
	comes, served string
	hold, node    string
	until         time.Duration // zero: not left
	woken         string
	class         string // silver
	forgotten     bool
}

func TestCrowd(t *testing.T) {
	second := time.Second
	for _, test := range []struct {
		name  string
		steps []crowdStep
	}{
		{"nobody waits", []crowdStep{{hold: "x"}}},
		{"another class's claims are nothing to it", []crowdStep{{comes: "a", class: "gold"}, {hold: "x"}}},
		{"the last who is served wakes all", []crowdStep{{comes: "a"}, {hold: "x", until: tidyAfter}, {comes: "b"}, {at: second, hold: "y", until: second + tidyAfter},
			{at: second, served: "a"}, {at: second, served: "b", woken: "x y"}, {at: second, hold: "x"}, {at: second, served: "b"}}},
		{"served is who waited", []crowdStep{{comes: "a"}, {hold: "x", until: tidyAfter}, {served: "b"}, {hold: "x", until: tidyAfter},
			{comes: "a"}, {served: "a", woken: "x"}}},
		{"while somebody waits, after a while", []crowdStep{{comes: "a"}, {hold: "x", until: tidyAfter}, {at: tidyAfter - 1, hold: "x", until: tidyAfter},
			{at: tidyAfter, hold: "x"}, {at: tidyAfter, hold: "x"}}},
		{"who waits again has nothing left", []crowdStep{{comes: "a"}, {hold: "x", until: tidyAfter}, {comes: "x"}, {comes: "b"}, {served: "a"},
			{at: second, served: "x"}, {at: second, hold: "x", until: second + tidyAfter}, {at: second, served: "b", woken: "x"}}},
		{"forgotten", []crowdStep{{comes: "a"}, {hold: "x", until: tidyAfter}, {hold: "y", until: tidyAfter}, {served: "x", forgotten: true},
			{served: "a", forgotten: true, woken: "y"}}},
	} {
		t.Run(test.name, func(t *testing.T) { followCrowd(t, test.steps) })
	}
}

func followCrowd(t *testing.T, steps []crowdStep) {
	var woken []string
	c := newCrowd(func(uid string) { woken = append(woken, uid) })
	uids := map[string]bool{}
	for i, s := range steps {
		now, class := noon.Add(s.at), cmp.Or(s.class, "silver")
		woken = nil
		switch {
		case s.comes != "":
			c.note(class, s.comes, true)
		case s.forgotten:
			c.forget(class, s.served)
		case s.served != "":
			c.note(class, s.served, false)
		default:
			want := time.Time{}
			if s.until > 0 {
				want = noon.Add(s.until)
			}
			if until := c.hold(class, s.hold, "node1", now); !until.Equal(want) {
				t.Errorf("step %d: the records of %s are left until %v, want %v", i, s.hold, until, want)
			}
		}
		if got := strings.Join(woken, " "); got != s.woken {
			t.Errorf("step %d: %q woken, want %q", i, got, s.woken)
		}
		uids[s.comes], uids[s.served], uids[s.hold] = true, true, true
	}
	for uid := range uids {
		c.forget("silver", uid)
		c.forget("gold", uid)
	}
	if len(c.lines)+len(c.ended)+c.left > 0 {
		t.Errorf("remembered at the end: %v, %v, %d", c.lines, c.ended, c.left)
	}
}

// For many who wait records are left longer, but not without end, nor any number of them.
func TestCrowdOfMany(t *testing.T) {
	c := newCrowd(func(string) {})
	left := func(uid string, want time.Duration) {
		t.Helper()
		if until := c.hold("silver", uid, "", noon); !until.Equal(noon.Add(want)) {
			t.Errorf("the records of %s are left until %v, want %v", uid, until, noon.Add(want))
		}
	}
	for i := range tidyMany - 1 {
		c.note("silver", fmt.Sprint("a", i), true)
	}
	left("x0", tidyAfter)
	left("x1", tidyAfter)
	left("x2", tidyWithin)
	left("x0", tidyAfter)
	if until := c.hold("silver", "x2", "", noon.Add(tidyWithin)); !until.IsZero() {
		t.Errorf("after %v records are left until %v", tidyWithin, until)
	}
	c.note("silver", "a0", false)
	left("x3", tidyWithin) // those who were left count as well: a burst may be served as fast as it comes
	c.forget("silver", "x1")
	c.forget("silver", "x2")
	left("x4", tidyAfter)
	c.note("gold", "b", true)
	for i := c.left; i < tidyAtMost; i++ {
		if c.hold("gold", fmt.Sprint("z", i), "", noon).IsZero() {
			t.Fatalf("%d records are left, want %d", i, tidyAtMost)
		}
	}
	if !c.hold("silver", "one more", "", noon).IsZero() {
		t.Errorf("more than %d records are left", tidyAtMost)
	}
	c.note("silver", "x0", true)
	if c.hold("gold", "one more", "", noon).IsZero() {
		t.Error("the place of one that is not left any more is not free")
	}
}

func TestCrowdOnNode(t *testing.T) {
	c := newCrowd(func(string) {})
	c.note("silver", "a", true)
	held := func(uid, node string) bool { return !c.hold("silver", uid, node, noon).IsZero() }
	for i := range tidyOnNode {
		if !held(fmt.Sprint("x", i), "node1") {
			t.Fatalf("%d records are left on a node, want %d", i, tidyOnNode)
		}
	}
	if held("y", "node1") {
		t.Errorf("more than %d records are left on a node", tidyOnNode)
	}
	if !held("x0", "node1") || !held("y", "node2") || !held("z", "") {
		t.Error("what is left is not left any more, or neither on another node, or on none")
	}
	c.forget("silver", "x0")
	if !held("z1", "node1") {
		t.Error("the place on the node is not free again")
	}
}

func TestYield(t *testing.T) {
	for _, test := range []struct {
		name  string
		scene scene
		alone bool
		held  bool
	}{
		{"claim bound", scene{claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}, false, true},
		{"claim bound, and nobody else waits", scene{claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}, true, false},
		{"claim to be bound", scene{volume: "fits", pods: []string{"prov-0 done"}}, false, false},
		{"volume gone", scene{claim: "none", pods: []string{"del-0 done"}}, false, true},
		{"volume to go", scene{claim: "none", volume: "fits released", also: "asked", pods: []string{"del-0 done"}}, false, false},
		{"undone, claim waits", scene{pods: []string{"prov-0 failed", "del-0 done"}}, false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := &Dispatcher{crowd: newCrowd(func(string) {})}
			if !test.alone {
				d.crowd.note("silver", "another", true)
			}
			f := test.scene.facts()
			p := decide(f)
			acts := len(p.settle) > 0
			d.yield(f, &p)
			if held := acts && len(p.settle) == 0 && p.again.Equal(noon.Add(tidyAfter)) && !p.forget && !p.check; held != test.held {
				t.Errorf("held: %v, want %v: %+v", held, test.held, p)
			}
		})
	}
	t.Run("pod that somebody deletes", func(t *testing.T) {
		d := &Dispatcher{crowd: newCrowd(func(string) {})}
		d.crowd.note("silver", "another", true)
		p := plan{settle: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: noon}}}}}
		d.yield(scene{claim: "bound"}.facts(), &p)
		if len(p.settle) == 0 {
			t.Error("its finalizer stays")
		}
	})
}

package dispatcher

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestCrowd(t *testing.T) {
	var woken []string
	c := newCrowd(func(uid string) { woken = append(woken, uid) })
	hold := func(class, uid string, at time.Time, want time.Time) {
		t.Helper()
		if until := c.hold(class, uid, at); !until.Equal(want) {
			t.Errorf("the records of %s are held until %v, want %v", uid, until, want)
		}
	}
	end := noon.Add(tidyWithin)
	c.note("gold", "a", true)
	hold("silver", "x", noon, time.Time{}) // another class's claims are nothing to it
	c.note("silver", "b", true)
	c.note("silver", "c", true)
	hold("silver", "x", noon, end)
	hold("silver", "y", noon.Add(time.Second), end.Add(time.Second))
	c.note("silver", "b", false)
	hold("silver", "x", noon.Add(2*time.Second), end)
	if len(woken) > 0 {
		t.Errorf("%v were woken while c waits", woken)
	}
	c.note("silver", "c", false)
	if want := []string{"x", "y"}; !slices.Equal(woken, want) {
		t.Errorf("%v were woken when nobody waited any more, want %v", woken, want)
	}
	hold("silver", "x", noon.Add(3*time.Second), time.Time{})
	c.note("silver", "x", false)
	if len(woken) > 2 {
		t.Errorf("%v were woken by a look at one of them", woken[2:])
	}
	c.note("silver", "d", true)
	hold("silver", "y", noon.Add(4*time.Second), end.Add(time.Second)) // not again from the beginning
	hold("silver", "y", end.Add(time.Second), time.Time{})
	c.forget("silver", "x")
	c.forget("silver", "y")
	c.forget("silver", "d")
	c.note("gold", "a", false)
	if len(c.waiting)+len(c.held) > 0 {
		t.Errorf("remembered at the end: %v, %v", c.waiting, c.held)
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
			if held := acts && len(p.settle) == 0 && p.again.Equal(noon.Add(tidyWithin)) && !p.forget && !p.check; held != test.held {
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

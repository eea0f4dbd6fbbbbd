package dispatcher

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// What stays for its name alone, so that a leader with an old cache finds it taken.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		scene
		stays bool // the oldest pod
	}{
		{scene{name: "first attempt of a claim that waits", pods: []string{"prov-0 failed kept", "prov-1 running"}}, true},
		{scene{name: "newest attempt of a claim that waits", pods: []string{"prov-3 failed kept"}}, true},
		{scene{name: "an attempt between", pods: []string{"prov-1 failed kept", "prov-2 running"}}, false},
		{scene{name: "first attempt of a claim that is gone", claim: "none", pods: []string{"prov-0 failed kept", "del-0 running"}}, false},
		{scene{name: "first of several deletes", claim: "none", volume: "fits released", pods: []string{"del-0 failed kept", "del-1 running"}}, true},
		{scene{name: "first of several undos", claim: "none", pods: []string{"del-0 failed kept", "del-2 failed"}}, true},
		{scene{name: "a delete between", claim: "none", volume: "fits released", pods: []string{"del-1 failed kept", "del-2 running"}}, false},
		{scene{name: "first of deletes that are over", claim: "none", pods: []string{"del-0 failed kept"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.facts()
			if got := f.holds(f.kept[0].pod) > 0; got != c.stays {
				t.Errorf("pod %s stays: %t, want %t", f.kept[0].pod.Name, got, c.stays)
			}
		})
	}
}

// A claim that the cache does not show is known by what its newest pod was asked for.
func TestWhose(t *testing.T) {
	for _, c := range []struct {
		scene
		want string
	}{
		{scene{name: "in the cache", pods: []string{"prov-0 failed"}}, "team-a/data"},
		{scene{name: "not in the cache", claim: "none", pods: []string{"prov-0 failed"}}, "team-a/data"},
		{scene{name: "no pods", claim: "none"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, got := c.facts(), ""
			for _, a := range f.attempts {
				a.pod.Annotations[contract.AnnRequest] = `{"claim":{"namespace":"team-a","name":"data","uid":"` + uid + `"}}`
			}
			if claim := f.whose(); claim != nil {
				got = claim.Namespace + "/" + claim.Name
				if claim.UID != uid {
					t.Errorf("it has the UID %s", claim.UID)
				}
			}
			if got != c.want {
				t.Errorf("got claim %q, want %q", got, c.want)
			}
		})
	}
}

// A class that is gone takes its threads along, once nothing of it goes on; what comes later is looked at as ever.
func TestLanesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var looks []string
		var l *lanes
		l = newLanes(3, func(_ context.Context, class, uid string) (time.Duration, error) {
			looks = append(looks, class+"/"+uid)
			l.forget(uid)
			return 0, nil
		})
		l.start(ctx)
		for range 2 {
			l.know("silver", "team", "1")
			l.add("silver", "team", "2")
			synctest.Wait()
			l.end("silver")
			if _, ok := l.queues["silver"]; !ok {
				t.Error("the lane ended while something goes on")
			}
			l.forget("1")
			l.end("silver")
			ended := make(chan struct{})
			go func() { l.wg.Wait(); close(ended) }()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("a thread stays")
			}
		}
		if want := []string{"silver/2", "silver/2"}; !slices.Equal(looks, want) {
			t.Errorf("looked at %q, want %q", looks, want)
		}
		cancel()
		l.wait()
	})
}

// What is known again asks for no look by itself, and hears of its slot; it stays in the lane that it had.
func TestKnow(t *testing.T) {
	l := newLanes(1, func(context.Context, string, string) (time.Duration, error) { return 0, nil })
	l.know("silver", "team", uid)
	if n := l.queue("silver").Len(); n != 0 {
		t.Errorf("%d looks were asked for", n)
	}
	l.know("gold", "team", uid)
	l.poke(uid)
	if silver, gold := l.queue("silver").Len(), l.queue("gold").Len(); silver != 1 || gold != 0 {
		t.Errorf("%d looks in its lane, %d in another", silver, gold)
	}
}

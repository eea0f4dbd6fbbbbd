package queue

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A class that does not exist any more takes its workers along, once nothing of it goes on. What comes later is looked at as ever.
func TestEndClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var looks []string
		var q *Queue
		q = New(3, func(_ context.Context, class, uid string) (time.Duration, error) {
			looks = append(looks, class+"/"+uid)
			q.Forget(uid, false)

			return 0, nil
		})
		q.Start(ctx)
		for range 2 {
			q.know("silver", "team", "1")
			q.Add("silver", "team", "2")
			synctest.Wait()
			if q.EndClass("silver") {
				t.Error("the class ended while something goes on")
			}

			q.Forget("1", false)
			if !q.EndClass("silver") {
				t.Error("the class does not end")
			}

			ended := make(chan struct{})
			go func() { q.running.Wait(); close(ended) }()
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("a worker stays")
			}
		}

		if want := []string{"silver/2", "silver/2"}; !slices.Equal(looks, want) {
			t.Errorf("looked at %q, want %q", looks, want)
		}

		cancel()
		q.Wait()
	})
}

// A claim that stays known while it is forgotten asks for no look by itself, is requeued, and stays with the class that it had.
func TestForgetKeeps(t *testing.T) {
	q := New(1, nil)
	q.know("silver", "team", "1")
	q.Forget("1", true)
	if n := q.classes["silver"].work.Len(); n != 0 {
		t.Errorf("%d looks were asked for", n)
	}

	q.know("gold", "team", "1")
	q.Requeue("1")
	if silver, gold := q.classes["silver"].work.Len(), q.classes["gold"]; silver != 1 || gold != nil {
		t.Errorf("%d looks in its class, and another class is %+v", silver, gold)
	}

	q.Forget("1", false)
	if q.Requeue("1"); q.Active("silver") != 0 {
		t.Error("it is known")
	}
}

// A claim that is forgotten while it is queued, and added with another class, is not reconciled by both classes' workers at once.
func TestOneAtOnceAcrossClasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var q *Queue
		var calls, at, most atomic.Int32
		q = New(1, func(_ context.Context, class, uid string) (time.Duration, error) {
			if calls.Add(1) == 1 {
				q.Requeue(uid)
				q.Forget(uid, false)
				q.Add("b", "team", uid)

				return 0, nil
			}

			most.Store(max(most.Load(), at.Add(1)))
			defer at.Add(-1)

			time.Sleep(time.Second)

			return 0, nil
		})
		q.Add("a", "team", "1")
		q.Start(ctx)
		time.Sleep(time.Minute)
		if most.Load() > 1 {
			t.Errorf("%d workers reconcile the claim at once", most.Load())
		}

		cancel()
		q.Wait()
	})
}

// A class that comes while the workers end does not keep them from ending.
func TestAddDuringWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		q := New(2, func(context.Context, string, string) (time.Duration, error) {
			time.Sleep(time.Second) // a request that is under way
			return 0, nil
		})
		q.Start(ctx)
		q.Add("a", "team", "1")
		synctest.Wait()
		cancel()
		ended := make(chan struct{})
		go func() { q.Wait(); close(ended) }()
		synctest.Wait()
		q.Add("b", "team", "2")
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Error("the workers of class b never end")
			q.classes["b"].work.ShutDown()
		}
	})
}

// TestMove: a claim that its worker moves is reconciled in the queue of its new class, by one worker at a time,
// whatever was queued before. What others wait for in the class that it leaves comes about without it.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var looks []string
		var busy atomic.Int32
		var q *Queue
		q = New(3, func(_ context.Context, class, uid string) (time.Duration, error) {
			if busy.Add(1) > 1 {
				t.Error("two workers reconcile it at once")
			}

			defer busy.Add(-1)

			looks = append(looks, class)
			if class == "silver" {
				q.Requeue(uid) // something changes meanwhile
				q.Move(uid, "gold")

				return time.Second, nil
			}

			time.Sleep(time.Minute)

			return 0, nil
		})
		q.know("silver", "team", "1")
		if _, _, ok := q.Acquire("silver", "0", "pod", 1, time.Now()); !ok {
			t.Fatal("there is no slot")
		}

		q.UserWaits("1", true)
		q.Acquire("silver", "1", "waits", 1, time.Now())
		q.Start(ctx)
		q.Add("silver", "team", "1")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if want := []string{"silver", "gold", "gold"}; len(looks) < 2 || !slices.Equal(looks[:2], want[:2]) || slices.Contains(looks[1:], "silver") {
			t.Errorf("looked at in %q, want %q", looks, want)
		}

		if silver, gold := q.Active("silver"), q.Active("gold"); silver != 1 || gold != 1 {
			t.Errorf("%d claims are of silver and %d of gold, want one each", silver, gold)
		}

		if c := q.classes["silver"]; c.userWaits != 0 || c.next() != "" {
			t.Errorf("in silver %d users wait, and %q is next", c.userWaits, c.next())
		}

		cancel()
		q.Wait()
	})
}

package flow

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestPauses: they grow by half, from 50 ms to 5 s.
func TestPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p backoff
		var took []time.Duration
		for range 14 {
			begin := time.Now()
			if err := p.wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			took = append(took, time.Since(begin).Truncate(time.Millisecond))
		}
		const ms = time.Millisecond
		want := []time.Duration{50 * ms, 75 * ms, 112 * ms, 168 * ms, 253 * ms, 379 * ms, 569 * ms, 854 * ms, 1281 * ms, 1922 * ms, 2883 * ms, 4324 * ms, 5000 * ms, 5000 * ms}
		if !slices.Equal(took, want) {
			t.Errorf("pauses of %v, want %v", took, want)
		}
	})
}

// TestPauseEnds: a pause ends with its context, whose cause it tells.
func TestPauseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("SIGTERM")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := backoff{next: 4 * time.Second}
		time.AfterFunc(2*time.Second, func() { cancel(cause) })
		begin := time.Now()
		if err := p.wait(ctx); err != cause || time.Since(begin) != 2*time.Second {
			t.Errorf("after %s: %v", time.Since(begin), err)
		}
	})
}

// TestLook: a look bears two failures in a row that pass, and no refusal. After the last one it does not wait.
func TestLook(t *testing.T) {
	const find = "find pvc-" + claimUID + ": "
	type row struct {
		faults []fake.Fault
		code   int
		err    string
		looks  int
		took   time.Duration
	}
	playEach(t, map[string]row{
		"two":   {[]fake.Fault{fake.On(callFind).Refuse(500, "broken"), fake.On(callFind).Nth(2).Close()}, 0, "", 3, 125 * time.Millisecond},
		"three": {[]fake.Fault{fake.On(callFind).Refuse(500, "broken").Always()}, 1, find + "broken (HTTP 500)", 3, 125 * time.Millisecond},
		"busy":  {[]fake.Fault{fake.On(callFind).Refuse(429, "busy").Always()}, 75, find + "busy (HTTP 429)", 3, 125 * time.Millisecond},
		"no":    {[]fake.Fault{fake.On(callFind).Refuse(403, "no").Always()}, 64, find + "no (HTTP 403)", 1, 0},
	}, func(s *scene, c row) {
		for _, fault := range c.faults {
			s.cinder.Fault(fault)
		}
		begin := time.Now()
		s.want(s.delete(nil), c.code, c.err)
		s.wantCalls(slices.Repeat([]string{callFind}, c.looks)...)
		if took := time.Since(begin); took != c.took {
			s.t.Errorf("it took %s, want %s", took, c.took)
		}
	})
	// It looks no more where the run has ended, in a call or in a pause.
	late := func(fake.Call) { time.Sleep(50*time.Second - time.Millisecond) }
	for _, fault := range []fake.Fault{fake.On(callFind).Hang(), fake.On(callFind).Do(late).Refuse(500, "broken")} {
		play(t, func(s *scene) {
			s.cinder.Fault(fault)
			begin := time.Now()
			s.want(s.delete(nil), 1, "gave up before the pod's deadline of 60 s: …")
			s.wantCalls(callFind)
			if took := time.Since(begin); took != 50*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestGaveUp: what a run says that had to end.
func TestGaveUp(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	late, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	cause := errors.New("no answer")
	for _, c := range []struct {
		ctx   context.Context
		state string
		err   error
		want  string
	}{
		{t.Context(), "volume 1 is creating", cause, "no answer"},
		{stopped, "volume 1 is creating", nil, ""},
		{stopped, "volume 1 is creating", cause, "stopped while volume 1 is creating: no answer"},
		{stopped, "", cause, "stopped: no answer"},
		{late, "volume 1 is creating", cause, "gave up before the pod's deadline of 60 s while volume 1 is creating: no answer"},
		{late, "", cause, "gave up before the pod's deadline of 60 s: no answer"},
	} {
		f := &Flow{Request: contract.Request{TimeoutSeconds: 60}, state: c.state}
		if err := f.withState(c.ctx, c.err); text(err) != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q, %v: %v, want %s", c.state, c.err, err, c.want)
		}
	}
}

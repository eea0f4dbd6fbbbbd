package main

import (
	"context"
	"fmt"
	"time"

	"github.com/flex-provisioner/flex-provisioner/test/integration/apiserver"
)

// oursClass is served by the dispatcher, floorClass by the bare program.
var (
	oursClass  = class{name: "flex-bench-ours", provisioner: "flex-provisioner.io/dispatcher"}
	floorClass = class{name: "flex-bench-floor", provisioner: floorProvisioner}
)

// stage is a control plane with somebody who plays nodes and somebody who watches.
type stage struct {
	plane    *plane
	observer *observer
	player   *player
	bare     *bareProgram
	ours     *process
}

// openStage makes classes and starts who serves them: the bare program for floorClass, and the dispatcher for the others.
func openStage(ctx context.Context, controllers apiserver.Limits, acts map[string]act, classes ...class) (_ *stage, err error) {
	s := &stage{observer: newObserver()}
	if s.plane, err = startPlane(ctx, controllers); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	s.player = startPlayer(ctx, s.plane, s.observer, acts)
	dispatches := false
	for _, c := range classes {
		if err := addClass(ctx, s.plane.admin, c); err != nil {
			return nil, err
		}
		if c.provisioner == floorProvisioner {
			if s.bare, err = startBareProgram(ctx, s.plane, s.observer, c); err != nil {
				return nil, err
			}
		}
		dispatches = dispatches || c.provisioner == oursClass.provisioner
	}
	if len(classes) > 0 {
		if err := s.player.policiesBite(ctx, classes[0]); err != nil {
			return nil, err
		}
	}
	if dispatches {
		if s.ours, err = startDispatcher(ctx, s.plane); err != nil {
			return nil, err
		}
	}
	return s, s.observer.start(ctx, s.plane.admin)
}

func (s *stage) close() {
	if s.ours != nil {
		s.ours.stop()
	}
	if s.observer.stop != nil {
		s.observer.end()
	}
	if s.player != nil {
		s.player.end()
	}
	if s.bare != nil {
		s.bare.end()
	}
	if s.plane != nil {
		s.plane.stop()
	}
}

// result of one burst.
type result struct {
	rate float64 // claims a second, from the first create to the last Bound
	// rateCleared is until the last pod is gone, and rateOver until the last claim is Bound as well: the floor deletes pods whose claims
	// are not bound yet.
	rateCleared, rateOver float64
	releaseRate           float64 // from the first delete to the last volume gone
	// releaseRateCleared is until the last pod is gone.
	releaseRateCleared float64
	share, finish      series // annotation to pod, pod ended to pod gone
	deleteFinish       series
	made, removed      cost // of the burst, of its deletion
}

// cost is what somebody's work took.
type cost struct {
	requests   tally // of whoever serves
	everybodys tally // requests of all
	used       tally // milliseconds of processors
}

// burst makes n claims of the class at once and waits until all are bound and their pods gone; then it deletes them all, if it
// is to.
func (s *stage) burst(ctx context.Context, c class, n int, release bool) (r result, err error) {
	ctx, cancel := within(ctx, 2*time.Minute+time.Duration(n)*100*time.Millisecond, fmt.Sprintf("burst of %d claims of %s", n, c.name))
	defer cancel()
	r.made, err = s.costOf(ctx, func() error { return s.make(ctx, c, n, &r) })
	if err != nil || !release {
		return r, err
	}
	r.removed, err = s.costOf(ctx, func() error { return s.remove(ctx, c, n, &r) })
	return r, err
}

// costOf does something, and counts what it takes.
func (s *stage) costOf(ctx context.Context, do func() error) (cost, error) {
	before, err := s.read(ctx)
	if err != nil {
		return cost{}, err
	}
	if err := do(); err != nil {
		return cost{}, err
	}
	after, err := s.read(ctx)
	return cost{after.requests.since(before.requests), after.everybodys.since(before.everybodys), after.used.since(before.used)}, err
}

// read is what was made and used since the processes were started.
func (s *stage) read(ctx context.Context) (c cost, err error) {
	if c.used, err = s.usage(); err != nil {
		return c, err
	}
	c.requests, c.everybodys, err = s.plane.requests(ctx)
	return c, err
}

func (s *stage) make(ctx context.Context, c class, n int, r *result) error {
	start := time.Now()
	if err := makeClaims(ctx, s.plane.admin, s.observer, c.name, n); err != nil {
		return err
	}
	if err := s.observer.until(ctx, "Bound", s.observer.all(n, c.name, bound)); err != nil {
		return err
	}
	r.rate = float64(n) / s.observer.latest(c.name, bound).Sub(start).Seconds()
	if err := s.observer.until(ctx, "pods gone", s.observer.all(n, c.name, podGone)); err != nil {
		return err
	}
	r.rateCleared = float64(n) / s.observer.latest(c.name, podGone).Sub(start).Seconds()
	r.rateOver = min(r.rate, r.rateCleared)
	r.share, r.finish = s.observer.spans(c.name, annotated, podMade), s.observer.spans(c.name, podFinal, podGone)
	return nil
}

func (s *stage) remove(ctx context.Context, c class, n int, r *result) error {
	start := time.Now()
	if err := deleteClaims(ctx, s.plane.admin, c.name, n); err != nil {
		return err
	}
	if err := s.observer.until(ctx, "volumes gone", s.observer.all(n, c.name, volumeGone)); err != nil {
		return err
	}
	r.releaseRate = float64(n) / s.observer.latest(c.name, volumeGone).Sub(start).Seconds()
	if err := s.observer.until(ctx, "pods that deleted gone", s.observer.all(n, c.name, deletePodGone)); err != nil {
		return err
	}
	r.releaseRateCleared = float64(n) / s.observer.latest(c.name, deletePodGone).Sub(start).Seconds()
	r.deleteFinish = s.observer.spans(c.name, deletePodFinal, deletePodGone)
	return nil
}

package main

import (
	"context"
	"fmt"
	"os"
	"time"
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
	peer     *peer
	ours     *process
}

// openStage makes classes and starts who serves them: the bare program for floorClass, and the dispatcher for the others.
func openStage(ctx context.Context, controllers limits, acts map[string]act, classes ...class) (_ *stage, err error) {
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
		if s.ours, err = startDispatcher(ctx, s.plane, oursClass); err != nil {
			return nil, err
		}
	}
	return s, s.observer.start(ctx, s.plane.admin)
}

func (s *stage) close() {
	if s.ours != nil {
		s.ours.stop()
	}
	if s.peer != nil {
		s.peer.stop()
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
	rate          float64 // claims a second, from the first create to the last Bound
	rateCleared   float64 // until the last pod is gone
	releaseRate   float64 // from the first delete to the last volume gone
	share, finish series  // annotation to pod, pod ended to pod gone
	deleteFinish  series
	requests      requests      // of whoever serves, in the burst
	releases      requests      // in the deletion
	cpu           time.Duration // of the dispatcher
	cpuOfAll      time.Duration // of the control plane, the player and whoever serves
	releaseCPU    time.Duration // of all, in the deletion
}

// burst makes n claims of the class at once and waits until all are bound and their pods gone; then, where it is ours, it
// deletes them all.
func (s *stage) burst(ctx context.Context, c class, n int, release bool) (r result, err error) {
	ctx, cancel := within(ctx, 2*time.Minute+time.Duration(n)*100*time.Millisecond, fmt.Sprintf("burst of %d claims of %s", n, c.name))
	defer cancel()
	before, err := s.plane.requests(ctx)
	if err != nil {
		return r, err
	}
	cpu, cpuOfAll, err := s.cpu()
	if err != nil {
		return r, err
	}
	start := time.Now()
	if err := makeClaims(ctx, s.plane.admin, s.observer, c.name, n); err != nil {
		return r, err
	}
	if err := s.observer.until(ctx, "Bound", all(n, c.name, bound)); err != nil {
		return r, err
	}
	r.rate = float64(n) / s.observer.latest(c.name, bound).Sub(start).Seconds()
	if s.peer == nil {
		if err := s.observer.until(ctx, "pods gone", all(n, c.name, podGone)); err != nil {
			return r, err
		}
		r.rateCleared = float64(n) / s.observer.latest(c.name, podGone).Sub(start).Seconds()
	}
	r.share, r.finish = s.observer.spans(c.name, annotated, podMade), s.observer.spans(c.name, podFinal, podGone)
	after, afterOfAll, err := s.cpu()
	if err != nil {
		return r, err
	}
	r.cpu, r.cpuOfAll = after-cpu, afterOfAll-cpuOfAll
	now, err := s.plane.requests(ctx)
	if err != nil {
		return r, err
	}
	r.requests = now.since(before)
	if !release {
		return r, nil
	}
	start = time.Now()
	if err := deleteClaims(ctx, s.plane.admin, c.name, n); err != nil {
		return r, err
	}
	if err := s.observer.until(ctx, "volumes gone", all(n, c.name, volumeGone)); err != nil {
		return r, err
	}
	r.releaseRate = float64(n) / s.observer.latest(c.name, volumeGone).Sub(start).Seconds()
	r.deleteFinish = s.observer.spans(c.name, deletePodFinal, deletePodGone)
	end, err := s.plane.requests(ctx)
	if err != nil {
		return r, err
	}
	r.releases = end.since(now)
	_, endOfAll, err := s.cpu()
	r.releaseCPU = endOfAll - afterOfAll
	return r, err
}

// cpu is the processor time of the dispatcher, and of everything.
func (s *stage) cpu() (ours, all time.Duration, err error) {
	pids := append(s.plane.server.Processes(), os.Getpid())
	if s.ours != nil {
		if ours, err = processorTime(s.ours.cmd.Process.Pid); err != nil {
			return 0, 0, err
		}
	}
	all, err = processorTime(pids...)
	return ours, all + ours, err
}

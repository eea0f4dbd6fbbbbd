package main

import (
	"context"
	"fmt"
	"time"
)

// secondClass is served by a dispatcher of its own.
var secondClass = class{name: "flex-bench-second", provisioner: "bench.flex-provisioner.io/second", installation: "second"}

// beside is how many claims two dispatchers share.
const beside = 500

// runDispatchers runs one dispatcher with all the claims, and two with half of them each, in turn.
func runDispatchers(ctx context.Context, s settings, r *report) error {
	c := fmt.Sprintf("2 several dispatchers, %d claims at once", beside)
	for range s.runs {
		one, err := burstOfSeveral(ctx, oursClass)
		if err != nil {
			return fmt.Errorf("one dispatcher: %w", err)
		}
		two, err := burstOfSeveral(ctx, oursClass, secondClass)
		if err != nil {
			return fmt.Errorf("two dispatchers: %w", err)
		}
		r.add(figure{Case: c, What: "one: bound", Unit: "1/s"}, one.rate)
		r.add(figure{Case: c, What: "two, with half each: bound", Unit: "1/s"}, two.rate)
		r.add(figure{Case: c, What: "two : one", Unit: "ratio"}, two.rate/one.rate)
		addSeries(r, figure{Case: c, What: "one: annotated to pod created", Unit: "ms"}, one.shares[0])
		for i, share := range two.shares {
			addSeries(r, figure{Case: c, What: fmt.Sprintf("two, number %d: annotated to pod created", i+1), Unit: "ms"}, share)
		}
	}
	return nil
}

type sharedBurst struct {
	rate   float64
	shares []series // of each class
}

// burstOfSeveral makes as many claims of each class at once, and waits until all are bound.
func burstOfSeveral(ctx context.Context, classes ...class) (result sharedBurst, err error) {
	ctx, cancel := within(ctx, 3*time.Minute, "burst of several dispatchers")
	defer cancel()
	s, err := openStage(ctx, raised, nil, oursClass)
	if err != nil {
		return result, err
	}
	defer s.close()
	for _, c := range classes[1:] {
		d, err := s.another(ctx, c)
		if err != nil {
			return result, err
		}
		defer d.stop()
	}
	each, start := beside/len(classes), time.Now()
	made := make(chan error, len(classes))
	for _, c := range classes {
		go func() { made <- makeClaims(ctx, s.plane.admin, s.observer, c.name, each) }()
	}
	for range classes {
		if err := <-made; err != nil {
			return result, err
		}
	}
	var last time.Time
	for _, c := range classes {
		if err := s.observer.until(ctx, "Bound", s.observer.all(each, c.name, bound)); err != nil {
			return result, err
		}
		if latest := s.observer.latest(c.name, bound); latest.After(last) {
			last = latest
		}
		result.shares = append(result.shares, s.observer.spans(c.name, annotated, podMade))
	}
	result.rate = beside / last.Sub(start).Seconds()
	return result, nil
}

// another installs and starts another dispatcher, as an administrator would, with a class.
func (s *stage) another(ctx context.Context, c class) (*process, error) {
	if err := s.plane.server.ApplyAnother(ctx, c.installation, c.provisioner); err != nil {
		return nil, err
	}
	if err := s.plane.runsOutside(ctx, c); err != nil {
		return nil, err
	}
	if err := addClass(ctx, s.plane.admin, c); err != nil {
		return nil, err
	}
	if err := s.player.policiesBite(ctx, c); err != nil {
		return nil, err
	}
	return startDispatcher(ctx, s.plane, c)
}

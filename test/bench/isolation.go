package main

import (
	"context"
	"fmt"
	"time"
)

// Classes of the isolation case: hangs and lacksImage are in trouble, healthy is not, and narrow has a max-concurrent.
var (
	healthyClass = class{name: "flex-bench-healthy", provisioner: oursClass.provisioner}
	hangsClass   = class{name: "flex-bench-hangs", provisioner: oursClass.provisioner}
	imageClass   = class{name: "flex-bench-no-image", provisioner: oursClass.provisioner}
	narrowClass  = class{name: "flex-bench-narrow", provisioner: oursClass.provisioner, data: map[string]string{"max-concurrent": "7"}}
)

const (
	troubled = 1000 // claims of each class in trouble
	narrow   = 300  // claims of the class with a max-concurrent
	lone     = 400  // claims of the healthy class, one at a time, without them and beside them
)

// runIsolation measures claims of one class alone on one control plane, and beside two classes that are in trouble on
// another, in turn, so that what else the machine does meets both: case 5.
func runIsolation(ctx context.Context, _ settings, r *report) error {
	ctx, cancel := within(ctx, 15*time.Minute, "isolation")
	defer cancel()
	idle, err := openStage(ctx, raised, nil, healthyClass)
	if err != nil {
		return err
	}
	defer idle.close()
	busy, err := openStage(ctx, raised, map[string]act{hangsClass.name: hang, imageClass.name: noImage}, healthyClass, hangsClass, imageClass, narrowClass)
	if err != nil {
		return err
	}
	defer busy.close()
	for _, c := range []class{hangsClass, imageClass} {
		if err := makeClaims(ctx, busy.plane.admin, busy.observer, c.name, troubled); err != nil {
			return err
		}
	}
	for _, c := range []class{hangsClass, imageClass} {
		if err := busy.observer.until(ctx, "pods of class "+c.name, busy.observer.all(troubled, c.name, podMade)); err != nil {
			return err
		}
	}
	for i := range lone {
		for _, s := range []*stage{idle, busy} {
			if err := s.one(ctx, i); err != nil {
				return err
			}
		}
	}
	alone, beside := idle.observer.spans(healthyClass.name, created, bound), busy.observer.spans(healthyClass.name, created, bound)
	c := fmt.Sprintf("5 isolation: %d claims beside %d that hang and %d without an image", lone, troubled, troubled)
	addSeries(r, figure{Case: c, What: "idle: claim created to Bound", Unit: "ms"}, alone)
	addSeries(r, figure{Case: c, What: "beside them: claim created to Bound", Unit: "ms"}, beside)
	addSeries(r, figure{Case: c, What: "idle: annotated to pod created", Unit: "ms"}, idle.observer.spans(healthyClass.name, annotated, podMade))
	addSeries(r, figure{Case: c, What: "beside them: annotated to pod created", Unit: "ms"}, busy.observer.spans(healthyClass.name, annotated, podMade))
	r.add(figure{Case: c, What: "p99 beside them : p99 idle, claim created to Bound", Unit: "ratio", AtMost: 1.2}, beside.at(0.99)/alone.at(0.99))
	r.add(figure{Case: c, What: "p50 beside them : p50 idle, claim created to Bound", Unit: "ratio"}, beside.at(0.5)/alone.at(0.5))
	return busy.narrow(ctx, r, c)
}

// one makes a claim of the healthy class, and waits until it is bound and its pod gone.
func (s *stage) one(ctx context.Context, i int) error {
	claim, err := s.plane.admin.CoreV1().PersistentVolumeClaims(name).Create(ctx, newClaim(fmt.Sprintf("lone-%d", i), healthyClass.name), createOptions)
	if err != nil {
		return fmt.Errorf("create claim: %w", err)
	}
	s.observer.made(claim)
	return s.observer.until(ctx, "one claim", func() bool {
		at := s.observer.courses[string(claim.UID)].at
		return !at[bound].IsZero() && !at[podGone].IsZero()
	})
}

// narrow runs a burst of the class with a max-concurrent, whose pods are to be as many at a time, and never more.
func (s *stage) narrow(ctx context.Context, r *report, c string) error {
	if err := makeClaims(ctx, s.plane.admin, s.observer, narrowClass.name, narrow); err != nil {
		return err
	}
	if err := s.observer.until(ctx, "Bound", s.observer.all(narrow, narrowClass.name, bound)); err != nil {
		return err
	}
	s.observer.mu.Lock()
	most := s.observer.most[narrowClass.name]
	s.observer.mu.Unlock()
	r.add(figure{Case: c, What: "pods at a time of a class with max-concurrent 7, the most", Unit: "count", AtMost: 7, AtLeast: 7}, float64(most))
	return nil
}

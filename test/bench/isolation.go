package main

import (
	"context"
	"fmt"
	"os"
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
	lone     = 200  // claims of the healthy class, one at a time, before and during
)

// runIsolation measures claims of one class alone, and then beside two classes that are in trouble: case 5.
func runIsolation(ctx context.Context, _ settings, r *report) error {
	s, err := openStage(ctx, map[string]act{hangsClass.name: hang, imageClass.name: noImage}, healthyClass, hangsClass, imageClass, narrowClass)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := within(ctx, 10*time.Minute, "isolation")
	defer cancel()
	idle, err := s.oneByOne(ctx, "idle", lone)
	if err != nil {
		return err
	}
	for _, c := range []class{hangsClass, imageClass} {
		if err := makeClaims(ctx, s.plane.admin, s.observer, c.name, troubled); err != nil {
			return err
		}
	}
	for _, c := range []class{hangsClass, imageClass} {
		if err := s.observer.until(ctx, "pods of class "+c.name, all(troubled, c.name, podMade)); err != nil {
			return err
		}
	}
	beside, err := s.oneByOne(ctx, "beside", lone)
	if err != nil {
		return err
	}
	c := fmt.Sprintf("5 isolation: beside %d claims that hang and %d without an image", troubled, troubled)
	addSeries(r, figure{Case: c, What: "idle: claim created to Bound", Unit: "ms"}, idle.bound)
	addSeries(r, figure{Case: c, What: "beside them: claim created to Bound", Unit: "ms"}, beside.bound)
	addSeries(r, figure{Case: c, What: "idle: annotated to pod created", Unit: "ms"}, idle.share)
	addSeries(r, figure{Case: c, What: "beside them: annotated to pod created", Unit: "ms"}, beside.share)
	r.add(figure{Case: c, What: "p99 beside them : p99 idle, claim created to Bound", Unit: "ratio", AtMost: 1.2}, beside.bound.at(0.99)/idle.bound.at(0.99))
	return s.narrow(ctx, r, c)
}

// narrow runs a burst of the class with a max-concurrent, whose pods are to be as many at a time, and never more.
func (s *stage) narrow(ctx context.Context, r *report, c string) error {
	if err := makeClaims(ctx, s.plane.admin, s.observer, narrowClass.name, narrow); err != nil {
		return err
	}
	if err := s.observer.until(ctx, "Bound", all(narrow, narrowClass.name, bound)); err != nil {
		return err
	}
	s.observer.mu.Lock()
	most := s.observer.most[narrowClass.name]
	s.observer.mu.Unlock()
	r.add(figure{Case: c, What: "pods at a time of a class with max-concurrent 7, the most", Unit: "count", AtMost: 7, AtLeast: 7}, float64(most))
	return nil
}

type lonely struct{ bound, share series }

// oneByOne makes claims of the healthy class, each when the one before is bound and its pod gone.
func (s *stage) oneByOne(ctx context.Context, label string, n int) (l lonely, err error) {
	before := map[string]bool{}
	s.observer.mu.Lock()
	for uid := range s.observer.courses {
		before[uid] = true
	}
	s.observer.mu.Unlock()
	for i := range n {
		claim, err := s.plane.admin.CoreV1().PersistentVolumeClaims(name).Create(ctx, newClaim(fmt.Sprintf("%s-%d", label, i), healthyClass.name), createOptions)
		if err != nil {
			return l, fmt.Errorf("create claim: %w", err)
		}
		uid := string(claim.UID)
		s.observer.note(uid, func(c *course, now time.Time) { c.class, c.created = healthyClass.name, now })
		if err := s.observer.until(ctx, "one claim", func(courses map[string]*course) bool {
			return !courses[uid].bound.IsZero() && !courses[uid].podGone.IsZero()
		}); err != nil {
			return l, err
		}
	}
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	for uid, c := range s.observer.courses {
		if c.class == healthyClass.name && !before[uid] {
			l.bound = append(l.bound, c.bound.Sub(c.created))
			l.share = append(l.share, max(0, c.podMade.Sub(c.annotated)))
		}
	}
	fmt.Fprintf(os.Stderr, "bench: isolation, %s: Bound p50 %.0f p99 %.0f ms\n", label, l.bound.at(0.5), l.bound.at(0.99))
	return l, nil
}

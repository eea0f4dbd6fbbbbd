package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	quietShare = 0.75 // of the processors' time, idle
	quietFor   = 500 * time.Millisecond
	quietLimit = 10 * time.Second
)

// settle waits until the node has nothing left to do of what was measured before it: a pod that is gone from the API
// server still has containers, networks and mounts to be taken down. Then it waits a random part of a second and a half,
// so that nothing locks on to the kubelet's rounds.
func (b *bench) settle(ctx context.Context) error {
	if err := b.quiet(ctx); err != nil {
		return err
	}
	return pause(ctx, rand.N(1500*time.Millisecond))
}

// quiet returns when the processors were idle for three quarters of half a second. On a machine with other work that may
// never be: then it says so, once, and goes on.
func (b *bench) quiet(ctx context.Context) error {
	before, err := readProcessors()
	if err != nil {
		return err
	}
	err = wait.PollUntilContextTimeout(ctx, quietFor, quietLimit, false, func(context.Context) (bool, error) {
		now, err := readProcessors()
		if err != nil {
			return false, err
		}
		idle := now.idleSince(before)
		before = now
		return idle >= quietShare, nil
	})
	if err == nil || ctx.Err() != nil || !wait.Interrupted(err) {
		return err
	}
	b.loud.Do(func() {
		fmt.Fprintf(os.Stderr, "bench: the processors were not idle for %.0f %% of any half second of %s: other work is measured too\n", 100*quietShare, quietLimit)
	})
	return nil
}

// processors is what all processors together did since the machine started.
type processors struct{ idle, all time.Duration }

func (p processors) idleSince(before processors) float64 {
	if p.all == before.all {
		return 0
	}
	return float64(p.idle-before.idle) / float64(p.all-before.all)
}

// readProcessors reads the first line of /proc/stat: user, nice, system, idle, iowait, and more (proc_stat(5)). What waits
// for a disk leaves the processor to others.
func readProcessors() (p processors, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return p, fmt.Errorf("read processors: %w", err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)[1:]
	if p.idle, err = ticks(fields[3:5]); err != nil {
		return p, err
	}
	p.all, err = ticks(fields)
	return p, err
}

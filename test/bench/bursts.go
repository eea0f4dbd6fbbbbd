package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// runBursts runs bare program and dispatcher in turn, each on a control plane of its own: cases 1, 2, 3 and 7.
func runBursts(ctx context.Context, s settings, r *report) error {
	for _, text := range strings.Split(s.sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-sizes=%s: %q is not a number of claims", s.sizes, text)
		}
		runs := s.runs
		if n > 2000 {
			runs = 1
		}
		for i := range runs {
			if err := runBurst(ctx, r, n, i); err != nil {
				return err
			}
		}
	}
	return nil
}

func runBurst(ctx context.Context, r *report, n, i int) error {
	floor, err := oneBurst(ctx, floorClass, n)
	if err != nil {
		return fmt.Errorf("floor: %w", err)
	}
	ours, err := oneBurst(ctx, oursClass, n)
	if err != nil {
		return fmt.Errorf("ours: %w", err)
	}
	c := fmt.Sprintf("1-2 burst of %d claims", n)
	r.add(figure{Case: c, What: "floor: bound", Unit: "1/s"}, floor.rate)
	r.add(figure{Case: c, What: "ours: bound", Unit: "1/s"}, ours.rate)
	r.add(figure{Case: c, What: "ours : floor", Unit: "ratio", AtLeast: 0.9}, ours.rate/floor.rate)
	r.add(figure{Case: c, What: "ours : floor, until the last pod is gone", Unit: "ratio"}, ours.rateCleared/floor.rateCleared)
	r.add(figure{Case: c, What: "ours : floor, until the last claim is bound and the last pod gone", Unit: "ratio"}, ours.rateOver/floor.rateOver)
	r.add(figure{Case: c, What: "writes of the dispatcher for a claim", Unit: "count", AtMost: 3, Note: ours.made.requests.per(n)}, round(writes(ours.made.requests)/float64(n)))
	r.add(figure{Case: c, What: "floor: processor time for a claim, of everything", Unit: "ms", Note: floor.made.used.per(n)}, floor.made.used.all()/float64(n))
	r.add(figure{Case: c, What: "ours: processor time for a claim, of everything", Unit: "ms", Note: ours.made.used.per(n)}, ours.made.used.all()/float64(n))
	r.add(figure{Case: c, What: "floor: requests of everybody for a claim", Unit: "count", Note: floor.made.everybodys.per(n)}, floor.made.everybodys.all()/float64(n))
	r.add(figure{Case: c, What: "ours: requests of everybody for a claim", Unit: "count", Note: ours.made.everybodys.per(n)}, ours.made.everybodys.all()/float64(n))
	r.add(figure{Case: c, What: "processor time, floor : ours", Unit: "ratio"}, floor.made.used.all()/ours.made.used.all())
	c = fmt.Sprintf("3 own share, burst of %d claims", n)
	addSeries(r, figure{Case: c, What: "floor: annotated to pod created", Unit: "ms"}, floor.share)
	addSeries(r, figure{Case: c, What: "ours: annotated to pod created", Unit: "ms", AtMost: 10}, ours.share)
	addSeries(r, figure{Case: c, What: "floor: pod ended to pod gone", Unit: "ms"}, floor.finish)
	addSeries(r, figure{Case: c, What: "ours: pod ended to pod gone", Unit: "ms"}, ours.finish)
	if ours.releaseRate > 0 {
		c = fmt.Sprintf("7 deletion of %d claims at once", n)
		r.add(figure{Case: c, What: "floor: volumes gone", Unit: "1/s"}, floor.releaseRate)
		r.add(figure{Case: c, What: "ours: volumes gone", Unit: "1/s"}, ours.releaseRate)
		r.add(figure{Case: c, What: "ours : floor", Unit: "ratio", AtLeast: 0.9}, ours.releaseRate/floor.releaseRate)
		r.add(figure{Case: c, What: "ours : floor, until the last pod is gone", Unit: "ratio"}, ours.releaseRateCleared/floor.releaseRateCleared)
		r.add(figure{Case: c, What: "floor: processor time for a volume, of everything", Unit: "ms", Note: floor.removed.used.per(n)}, floor.removed.used.all()/float64(n))
		r.add(figure{Case: c, What: "ours: processor time for a volume, of everything", Unit: "ms", Note: ours.removed.used.per(n)}, ours.removed.used.all()/float64(n))
		r.add(figure{Case: c, What: "processor time, floor : ours", Unit: "ratio"}, floor.removed.used.all()/ours.removed.used.all())
		r.add(figure{Case: c, What: "writes of the dispatcher for a volume", Unit: "count", Note: ours.removed.requests.per(n)}, round(writes(ours.removed.requests)/float64(n)))
		addSeries(r, figure{Case: c, What: "ours: delete pod ended to pod gone", Unit: "ms"}, ours.deleteFinish)
	}
	fmt.Fprintf(os.Stderr, "bench: %s run %d of %d claims: floor %.1f/s, ours %.1f/s, share p50 %.1f p99 %.1f ms\n", time.Now().Format(time.TimeOnly), i+1, n, floor.rate, ours.rate, ours.share.at(0.5), ours.share.at(0.99))
	return nil
}

// oneBurst deletes the claims too, unless they are very many.
func oneBurst(ctx context.Context, c class, n int) (result, error) {
	stage, err := openStage(ctx, raised, nil, c)
	if err != nil {
		return result{}, err
	}
	defer stage.close()
	return stage.burst(ctx, c, n, n <= 2000)
}

// addSeries adds the median of a run, and its p99.
func addSeries(r *report, f figure, s series) {
	f.P99 = s.at(0.99)
	r.add(f, s.at(0.5))
}

// round leaves out what a renewed event or a restart adds: a hundredth of a write.
func round(x float64) float64 { return float64(int(x*100+0.5)) / 100 }

// commit is the state of the repository, which the bench is run in.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine says on what the figures were measured.
func machine() string {
	load, _ := os.ReadFile("/proc/loadavg")
	return fmt.Sprintf("%d processors, %s, load %s", runtime.NumCPU(), runtime.Version(), strings.TrimSpace(string(load)))
}

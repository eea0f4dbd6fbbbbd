//go:debug randseednop=0

// Package chaos runs the real dispatcher through thousands of schedules of crashes, lost answers and errors.
package chaos

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/sim"
)

var (
	seeds   = flag.Int("seeds", 20, "how many seeds to run")
	from    = flag.Uint64("from", 1, "the first seed")
	verbose = flag.Bool("trace", false, "print plan and trace of every seed")
	shrink  = flag.Bool("shrink", true, "look for a smaller plan that fails as well")
	save    = flag.String("save", "", "write the smallest plan of the first failing seed to this file")
	only    = flag.String("only", "", "draw the faults of these themes alone, by comma")
	most    = flag.Int("most", 3, "how many failing seeds to print in full")
)

func TestMain(m *testing.M) {
	flag.Parse()
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	_ = flags.Set("stderrthreshold", "FATAL")
	// The default handlers wait for a global clock, which runs in the time of whichever bubble looked at it last.
	utilruntime.ErrorHandlers = nil
	runtime.GOMAXPROCS(1) // fewer ways in which goroutines can take turns; bubbles hardly gain by more
	if !alone {           // the race detector takes many times the memory
		debug.SetGCPercent(-1) // a collection makes goroutines yield: see collect
	}
	os.Exit(m.Run())
}

// collect collects garbage between runs.
func collect() {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	if stats.HeapAlloc > 300<<20 {
		runtime.GC()
	}
}

// watching is what the watchdog names when a run comes to no end in real time.
var watching atomic.Value

// run runs a plan in a bubble of its own. A deadlock or a panic is a violation.
func run(t *testing.T, plan sim.Plan, options sim.Options) (result sim.Result) {
	t.Helper()
	collect()
	watching.Store(plan.String())
	dog := time.AfterFunc(2*time.Minute, func() { panic("no end of\n" + watching.Load().(string)) })
	defer dog.Stop()
	defer func() {
		// A process that was killed before it had begun leaves goroutines behind, which end with it in real life.
		if r := recover(); r != nil && (!strings.Contains(fmt.Sprint(r), "blocked goroutines remain") || !result.DiedYoung) {
			result.Violations = append(result.Violations, fmt.Sprintf("at the end: %v", r))
		}
	}()
	rand.Seed(int64(plan.Seed)) // client-go draws its jitter from the global source
	synctest.Test(t, func(t *testing.T) {
		options.T = t
		result = sim.Run(plan, options)
	})
	return result
}

// TestSeeds is the search. Its last line counts seeds, faults and violations.
func TestSeeds(t *testing.T) {
	drawn := map[string]int{}
	failed := 0
	var virtual time.Duration
	started := time.Now()
	for seed := *from; seed < *from+uint64(*seeds); seed++ {
		plan := sim.NewPlan(seed, strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })...)
		if alone {
			plan = plan.Alone()
		}
		result := run(t, plan, sim.Options{})
		for kind, n := range result.Drawn {
			drawn[kind] += n
		}
		virtual += result.Virtual
		if *verbose {
			fmt.Printf("%s%s", plan, result.Trace)
		}
		if len(result.Violations) > 0 {
			failed++
			report(t, plan, result, failed)
		}
	}
	fmt.Printf("chaos: %d seeds from %d, %s of virtual time in %s, faults drawn:%s; seeds with violations: %d\n",
		*seeds, *from, virtual.Round(time.Second), time.Since(started).Round(time.Millisecond), counted(drawn), failed)
}

func report(t *testing.T, plan sim.Plan, result sim.Result, failed int) {
	t.Helper()
	t.Errorf("seed %d:\n  %s", plan.Seed, strings.Join(result.Violations, "\n  "))
	if failed > *most {
		return
	}
	if *shrink {
		plan, result = smaller(t, plan, result)
	}
	if *save != "" && failed == 1 {
		data, err := json.MarshalIndent(plan, "", " ")
		if err == nil {
			err = os.WriteFile(*save, append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	t.Logf("the smallest plan found:\n%s\n%s\nviolations:\n  %s", plan, result.Trace, strings.Join(result.Violations, "\n  "))
}

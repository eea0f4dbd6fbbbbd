package sim

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// Options of a run.
type Options struct {
	// Wrap, where not nil, stands between the dispatcher and the API server, to take a mechanism out.
	Wrap func(http.RoundTripper) http.RoundTripper
	// T is the bubble's, which ends the fake Cinder.
	T testing.TB
}

// Result is what a run came to.
type Result struct {
	Violations []string
	// Drawn counts the faults by kind.
	Drawn map[string]int
	// Events that were written, as "object reason: message".
	Events []string
	// Trace is what happened, one line a step.
	Trace fmt.Stringer
	// DiedYoung reports whether a dispatcher ended before its caches were filled.
	DiedYoung bool
	// Virtual is how long it took in virtual time.
	Virtual time.Duration
}

// Limits of the end of a run, when everything is mended.
const (
	patience = 40 * time.Minute
	quiet    = 10 * time.Minute
)

// Run runs a plan to its end. It is called inside a bubble of testing/synctest, with a context that it may outlive only
// to wait for what it started.
func Run(plan Plan, options Options) Result {
	ctx, cancel := context.WithCancel(context.Background())
	w := newWorld(ctx, plan, options)
	w.setup()
	w.startDispatcher()
	w.resync()
	for _, a := range plan.Actions {
		time.Sleep(time.Until(w.trace.start.Add(a.At)))
		w.do(a)
	}
	time.Sleep(time.Until(w.trace.start.Add(plan.Length)))
	w.mend()
	w.settle()
	virtual := time.Since(w.trace.start)
	w.over.Store(true)
	w.endDispatchers()
	cancel()
	time.Sleep(time.Hour) // for timers and containers to come to their ends
	return Result{Violations: w.violations, Drawn: w.counts, Trace: w.trace, DiedYoung: w.diedYoung.Load(), Virtual: virtual, Events: w.events()}
}

// mend ends all faults and lets a single dispatcher live.
func (w *World) mend() {
	w.trace.add("plan", "everything is mended")
	w.turns.disturbed("mending", 0)
	close(w.calm)
	w.allowDeletes()
	w.set(func() {
		w.noQuota, w.noSecret = false, false
		clear(w.images)
		clear(w.lags)
		clear(w.refuses)
	})
	for i := range w.plan.Classes {
		w.takeClassBack(i)
		w.putClass(i, "a", contract.ProvisionerName)
		if w.plan.Classes[i].Mounts {
			w.mount(i, exports)
			w.putExport(exports, serverA)
		}
		if cm, ok := apiserver.Get[*corev1.ConfigMap](w.server, apiserver.ConfigMaps, namespace, w.plan.Classes[i].Name); !ok || cm.Data["timeout"] == "" {
			w.putConfig(i, "zone-a", "")
		}
	}
	if w.cinder != nil {
		w.cinder.mend()
	}
	for _, n := range w.nodes {
		w.restoreNode(n)
	}
	w.allowHeld()
	if w.snapshots != nil {
		w.later(2*time.Minute, 3*time.Minute, w.finishSnapshots, "user", "finishes")
	}
	alive := w.alive()
	for len(alive) > 1 {
		w.killDispatcher(alive[0].process, "as everything is mended")
		alive = w.alive()
	}
	if len(alive) == 0 {
		w.startDispatcher()
	}
}

// settle waits until everything is as it must be, and then that nothing is written any more.
func (w *World) settle() {
	deadline := time.Now().Add(patience)
	left := w.unsettled()
	for len(left) > 0 && time.Now().Before(deadline) {
		time.Sleep(20 * time.Second)
		left = w.unsettled()
	}
	for _, what := range left {
		w.violate("%s, %s after everything was mended", what, patience)
	}
	time.Sleep(2 * time.Minute) // events are written in the background
	before := w.written()
	time.Sleep(quiet)
	retries := slices.ContainsFunc(apiserver.List[*corev1.Pod](w.server, apiserver.Pods), w.expandsNothing)
	if n := w.written() - before; n > 0 && len(left) == 0 && !retries {
		w.violate("%d writes in %s in which nothing happened, the last: %s", n, quiet, w.lastWrite)
	}
	if len(left) == 0 {
		for _, what := range w.unsettled() {
			w.violate("%s, although it had settled", what)
		}
	}
}

func (w *World) written() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes
}

// endDispatchers stops all of them, and sees that nothing of them is left.
func (w *World) endDispatchers() {
	w.mu.Lock()
	all := slices.Clone(w.dispatchers)
	w.mu.Unlock()
	for _, d := range all {
		d.kill()
		d.cancel()
	}
	for _, d := range all {
		select {
		case <-d.ended:
		case <-time.After(10 * time.Minute):
			w.violate("%s did not end within 10 minutes of being told to", d.name)
		}
	}
}

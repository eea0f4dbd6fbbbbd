package recorder

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Wait is the operation that a claim waits for, on itself or on its volume.
type Wait struct {
	// Class is the StorageClass, empty where only a claim says that there is one: it may name anything.
	Class string
	// Operation is one of the contract's or undo, empty where the claim waits for none. Phase is how far it has come.
	Operation, Phase string
	// Since is when the wait began, zero where nobody knows.
	Since time.Time
}

// SetWait sets what a claim waits for, and returns what it waited for before.
func (r *Recorder) SetWait(uid string, now Wait) (before Wait) {
	r.mu.Lock()
	defer r.mu.Unlock()

	before = r.waits[uid]

	if now.Since.IsZero() {
		now.Since = before.Since
		if now.Operation != before.Operation {
			now.Since = r.now() // it is first seen now
		}
	}

	delete(r.waits, uid)
	if now.Operation != "" {
		r.waits[uid] = now
	}

	return before
}

// Gauges are metrics that are counted when somebody reads them.
type Gauges struct {
	waiting, oldest, queued, pods, policiesMissing *prometheus.Desc
	waits                                          func() map[Wait]waitCount
	from                                           Sources
}

// Describe implements prometheus.Collector.
func (g Gauges) Describe(to chan<- *prometheus.Desc) {
	to <- g.waiting
	to <- g.oldest
	to <- g.queued
	to <- g.pods
	to <- g.policiesMissing
}

// Collect implements prometheus.Collector. It goes through what waits once.
func (g Gauges) Collect(to chan<- prometheus.Metric) {
	set := func(of *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
	}
	now := g.from.Now()
	for k, of := range g.waits() {
		set(g.waiting, float64(of.count), k.Class, k.Operation, k.Phase)
		set(g.oldest, max(0, now.Sub(of.since).Seconds()), k.Class, k.Operation, k.Phase)
	}

	for class, n := range g.from.Queued() {
		set(g.queued, float64(n), class)
	}

	for class, n := range g.from.Pods() {
		set(g.pods, float64(n), class)
	}

	missing := 0.0
	if g.from.PoliciesMissing() {
		missing = 1
	}

	set(g.policiesMissing, missing)
}

// Sources are what gauges are read from. They are called at any time, by several at once.
type Sources struct {
	// Now is the time that waits are compared with.
	Now func() time.Time
	// Queued counts the queued claims by class.
	Queued func() map[string]int
	// Pods counts the pods that have not ended, by class.
	Pods func() map[string]int
	// PoliciesMissing reports whether no pod is created because the admission policies are not in force.
	PoliciesMissing func() bool
}

// Gauges are the metrics that are read from the sources, and from what waits.
func (r *Recorder) Gauges(from Sources) Gauges {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}

	return Gauges{
		waiting: describe("flex_provisioner_waiting",
			"Claims, volumes and snapshots that wait for an operation, by class, operation and phase.",
			"class", "operation", "phase"),
		oldest: describe("flex_provisioner_oldest_wait_seconds",
			"Longest time that a claim, volume or snapshot has waited for an operation, by class, operation and "+
				"phase.",
			"class", "operation", "phase"),
		queued: describe("flex_provisioner_queue_depth",
			"Claims in the queue, by class.", "class"),
		pods: describe("flex_provisioner_pods",
			"Provisioner pods that have not ended, by class.", "class"),
		policiesMissing: describe("flex_provisioner_policies_missing",
			"1 while no pods are created because the admission policies are not in force, else 0."),
		waits: r.waiting,
		from:  from,
	}
}

// waitCount are waits that differ by their time alone.
type waitCount struct {
	count int
	since time.Time // of the oldest
}

// waiting counts what waits. The keys have no time.
func (r *Recorder) waiting() map[Wait]waitCount {
	r.mu.Lock()
	defer r.mu.Unlock()

	all := map[Wait]waitCount{}
	for _, w := range r.waits {
		key := Wait{Class: w.Class, Operation: w.Operation, Phase: w.Phase}
		of := all[key]
		if of.count == 0 || w.Since.Before(of.since) {
			of.since = w.Since
		}

		of.count++
		all[key] = of
	}

	return all
}

package recorder

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	library "sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller/metrics"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Metrics of the dispatcher. docs/metrics.md explains each.
type Metrics struct {
	attempts  *prometheus.CounterVec
	failures  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	ended     *prometheus.CounterVec
	served    *prometheus.HistogramVec
	protected *prometheus.GaugeVec
	stopped   prometheus.Gauge
	orphans   *prometheus.GaugeVec
	outdated  *prometheus.GaugeVec
	leader    prometheus.Gauge
	// eventsLost counts by cause.
	eventsLost *prometheus.CounterVec
	// library are the library's own, which nobody serves. They count by the class that a claim names, and any claim may
	// name one that does not exist.
	library library.Metrics
}

// PodCreated counts an attempt.
func (m *Metrics) PodCreated(class string, op contract.Operation) {
	m.attempts.WithLabelValues(class, string(op)).Inc()
}

// PodEnded counts how a pod ended, and observes how long it took from its creation until its end was noticed.
func (m *Metrics) PodEnded(class string, op contract.Operation, outcome podspec.Outcome, took time.Duration) {
	m.ended.WithLabelValues(class, string(op), string(outcome.Phase), string(outcome.Reason)).Inc()
	m.duration.WithLabelValues(class, string(op), string(outcome.Phase)).Observe(took.Seconds())
}

// Served observes how long somebody waited for an operation that has come about.
func (m *Metrics) Served(class, op string, took time.Duration) {
	m.served.WithLabelValues(class, op).Observe(took.Seconds())
}

// Failed counts a warning.
func (m *Metrics) Failed(class string, reason podspec.Reason) {
	m.failures.WithLabelValues(class, string(reason)).Inc()
}

// AddProtected adds to the volumes and undos that wait for an administrator.
func (m *Metrics) AddProtected(class string, reason podspec.Reason, n float64) {
	m.protected.WithLabelValues(class, string(reason)).Add(n)
}

// SetConfigOutdated says whether a class runs on an older version of its ConfigMap. A class without one has no series.
func (m *Metrics) SetConfigOutdated(class string, present, outdated bool) {
	switch {
	case !present:
		m.outdated.DeleteLabelValues(class)
	case outdated:
		m.outdated.WithLabelValues(class).Set(1)
	default:
		m.outdated.WithLabelValues(class).Set(0)
	}
}

// SetStopped says whether an administrator stops all deletions.
func (m *Metrics) SetStopped(stopped bool) {
	m.stopped.Set(0)
	if stopped {
		m.stopped.Set(1)
	}
}

// SetLeading says whether this dispatcher works.
func (m *Metrics) SetLeading(leads bool) {
	m.leader.Set(0)
	if leads {
		m.leader.Set(1)
	}
}

// SetOrphans sets the findings of the last audit.
func (m *Metrics) SetOrphans(kind string, n int) { m.orphans.WithLabelValues(kind).Set(float64(n)) }

// Library are the library's counters.
func (m *Metrics) Library() library.Metrics { return m.library }

// EndClass ends the series of a class.
func (m *Metrics) EndClass(class string) {
	of := prometheus.Labels{"class": class}
	m.attempts.DeletePartialMatch(of)
	m.failures.DeletePartialMatch(of)
	m.duration.DeletePartialMatch(of)
	m.ended.DeletePartialMatch(of)
	m.served.DeletePartialMatch(of)
	m.protected.DeletePartialMatch(of)
}

// ResetLibrary ends the series of the library, whose classes are those that claims name.
func (m *Metrics) ResetLibrary() {
	for _, series := range m.unserved() {
		series.Reset()
	}
}

// resettable are series that can be ended all at once.
type resettable interface {
	prometheus.Collector
	Reset()
}

func (m *Metrics) unserved() []resettable {
	l := m.library

	return []resettable{
		l.PersistentVolumeClaimProvisionTotal,
		l.PersistentVolumeClaimProvisionFailedTotal,
		l.PersistentVolumeClaimProvisionDurationSeconds,
		l.PersistentVolumeDeleteTotal,
		l.PersistentVolumeDeleteFailedTotal,
		l.PersistentVolumeDeleteDurationSeconds,
	}
}

// durations in seconds from half a second to half an hour: a pod takes one or two, a clone may take many minutes.
var durations = []float64{0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800}

// waits in seconds from one second to a day: a claim takes two or three, and a deletion that is held waits for a
// person.
var waits = []float64{1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400}

// seconds is a histogram with classic buckets, and with native ones for who collects these: a tenth wide each.
func seconds(name string, classic []float64, help string, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: classic,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100,
		NativeHistogramMinResetDuration: time.Hour,
	}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		library: library.New("library"),
		attempts: counter("flex_provisioner_attempts_total",
			"Provisioner pods created, by class and operation.", "class", "operation"),
		failures: counter("flex_provisioner_failures_total",
			"Failures reported as events, by class and reason.", "class", "reason"),
		ended: counter("flex_provisioner_attempts_ended_total",
			"Provisioner pods that ended, by class, operation, phase and reason.",
			"class", "operation", "phase", "reason"),
		served: seconds("flex_provisioner_served_seconds", waits,
			"Time from a claim until it is bound, from a VolumeSnapshot until it is ready, from a larger request "+
				"until the claim has it, and from a deletion until volume or snapshot is gone, by class and operation.",
			"class", "operation"),
		duration: seconds("flex_provisioner_duration_seconds", durations,
			"Time from the creation of a provisioner pod until its end was noticed, by class, operation and phase.",
			"class", "operation", "phase"),
		protected: gaugeVec("flex_provisioner_held",
			"Volumes, snapshots and undos with storage that waits for an administrator to allow its removal, by class "+
				"and reason.",
			"class", "reason"),
		stopped: gauge("flex_provisioner_deletes_stopped",
			"1 while an administrator stops all deletions, else 0."),
		orphans: gaugeVec("flex_provisioner_orphans",
			"Findings of the dispatcher's hourly audit, by kind.", "kind"),
		outdated: gaugeVec("flex_provisioner_config_outdated",
			"1 while a class runs on an older version of its ConfigMap, which is broken, else 0, by class.", "class"),
		leader: gauge("flex_provisioner_leader",
			"1 on the leader, 0 on a standby replica."),
		eventsLost: counter("flex_provisioner_events_lost_total",
			"Events that were given up before they were written, by cause.", "cause"),
	}
	registry.MustRegister(m.attempts, m.ended, m.failures, m.served, m.duration, m.protected, m.stopped, m.orphans,
		m.outdated, m.leader, m.eventsLost)

	for _, cause := range []string{lostFull, lostRefused, lostOutdated, lostEnded} {
		m.eventsLost.WithLabelValues(cause) // a counter that begins with its first event shows no increase
	}

	return m
}

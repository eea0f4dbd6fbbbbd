package docs

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/recorder"
	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// capture is a registry that only remembers. A real one shows no metric before its first value.
type capture struct{ collectors []prometheus.Collector }

func (c *capture) Register(collector prometheus.Collector) error {
	c.collectors = append(c.collectors, collector)
	return nil
}

func (c *capture) MustRegister(collectors ...prometheus.Collector) {
	c.collectors = append(c.collectors, collectors...)
}

func (c *capture) Unregister(prometheus.Collector) bool { return false }

var description = regexp.MustCompile(`fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"),.* variableLabels: \{(.*)\}\}`)

// TestMetrics: docs/metrics.md has each metric that the dispatcher registers. -update writes the table.
func TestMetrics(t *testing.T) {
	var registered capture
	client := kubernetes.NewForConfigOrDie(&rest.Config{Host: "https://192.0.2.1"}) // New makes no request
	_, err := dispatcher.New(t.Context(), client, dispatcher.Options{Registry: &registered, RecordKey: make([]byte, podspec.MinRecordKey), ProvisionerName: contract.ProvisionerName,
		SystemNamespace: contract.SystemNamespace, Pods: podspec.Cluster{Namespace: contract.ProvisionersNamespace}})
	if err != nil {
		t.Fatal(err)
	}
	rows := []string{"Metric | Type | Labels | Meaning", "--- | --- | --- | ---"}
	for _, collector := range registered.collectors {
		rows = append(rows, rowsOf(t, collector)...)
	}
	embedded(t, "docs/metrics.md", "metrics", "| "+strings.Join(rows, " |\n| ")+" |\n")
}

func rowsOf(t *testing.T, collector prometheus.Collector) []string {
	t.Helper()
	kind := ""
	switch collector.(type) {
	case prometheus.Gauge, *prometheus.GaugeVec, recorder.Gauges: // before counters, whose methods gauges have too
		kind = "gauge"
	case prometheus.Counter, *prometheus.CounterVec:
		kind = "counter"
	case prometheus.Histogram, *prometheus.HistogramVec:
		kind = "histogram"
	}
	descriptions := make(chan *prometheus.Desc, 100)
	collector.Describe(descriptions)
	close(descriptions)
	var rows []string
	for d := range descriptions {
		match := description.FindStringSubmatch(d.String())
		if match == nil {
			t.Fatalf("cannot read %s", d)
		}
		name, _ := strconv.Unquote(match[1])
		help, _ := strconv.Unquote(match[2])
		rows = append(rows, strings.Join([]string{"`" + name + "`", kind, strings.ReplaceAll(match[3], ",", ", "), help}, " | "))
	}
	return rows
}

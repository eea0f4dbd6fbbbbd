package dispatchertest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// Gauges are the values of a metric, each after its last label.
func Gauges(t testing.TB, registry *prometheus.Registry, name string) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	var values []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if labels := m.GetLabel(); family.GetName() == name {
				values = append(values, fmt.Sprint(labels[len(labels)-1].GetValue(), " ", m.GetGauge().GetValue()))
			}
		}
	}

	return strings.Join(values, ", ")
}

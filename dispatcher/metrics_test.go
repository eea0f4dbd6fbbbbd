package dispatcher

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// values are the series of a metric, each with its labels' values and its value; of a histogram the count and the rounded mean.
func values(t *testing.T, registry *prometheus.Registry, name string) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	var all []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() != name {
				continue
			}

			var words []string
			for _, label := range m.Label {
				words = append(words, label.GetValue())
			}

			value := fmt.Sprint(m.GetGauge().GetValue() + m.GetCounter().GetValue())
			if h := m.Histogram; h != nil {
				value = fmt.Sprintf("%d of %ds", h.GetSampleCount(), int(h.GetSampleSum()/float64(h.GetSampleCount())))
			}

			all = append(all, strings.Join(append(words, value), " "))
		}
	}

	slices.Sort(all)

	return strings.Join(all, ", ")
}

// TestMetricsOfClaims: what waits and for how long, what came of it, and that claims make no series.
func TestMetricsOfClaims(t *testing.T) {
	inBubble(t, func(p tenants) {
		registry := prometheus.NewRegistry()
		stop := p.dispatchWith(registry)
		expect := func(what string, want map[string]string) {
			t.Helper()
			for name, series := range want {
				if got := values(t, registry, "flex_provisioner_"+name); got != series {
					t.Errorf("%s, %s:\n%s\nwant\n%s", what, name, got, series)
				}
			}
		}
		p.class("a.good", nil)
		p.class("a.fails", nil)
		p.class("a.hangs", nil)
		p.play(5 * time.Second)
		p.create(apiserver.Classes, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Provisioner: "p"})
		p.claim("gone", "gone")
		time.Sleep(3 * time.Second)             // by then it has been told that there is no ConfigMap
		p.remove(apiserver.Classes, "", "gone") // from now on the claim alone says that there is one
		p.claim("good", "a.good")
		p.claim("fails", "a.fails")
		p.claim("hangs", "a.hangs")
		p.play(time.Minute)
		expect("after a minute", map[string]string{
			"waiting":              " provision Waiting 1, a.fails provision Failed 1, a.hangs provision Starting 1",
			"oldest_wait_seconds":  " provision Waiting 63, a.fails provision Failed 60, a.hangs provision Starting 60",
			"attempts_ended_total": "a.fails provision Failed ProvisionerFailed 6, a.good provision Succeeded  1",
			"served_seconds":       "a.good provision 1 of 1s",
			"failures_total":       " ProvisionerConfigMissing 1, a.fails ProvisionerFailed 6, a.hangs ProvisionerPodConfigError 1, gone ProvisionerConfigMissing 1",
			"leader":               "1",
			"policies_missing":     "0",
			"queue_depth":          " 0, a.fails 0, a.good 0, a.hangs 0",
			"pods":                 "a.fails 0, a.good 0, a.hangs 1",
		})
		p.remove(apiserver.Claims, "team", "good")
		p.remove(apiserver.Claims, "team", "fails")
		p.play(time.Minute)
		expect("after two are deleted", map[string]string{
			"waiting":        " provision Waiting 1, a.hangs provision Starting 1",
			"served_seconds": "a.good delete 1 of 2s, a.good provision 1 of 1s",
		})
		stop()
		expect("stopped", map[string]string{"leader": "0"})
	})
}

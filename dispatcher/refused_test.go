package dispatcher

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// refusing answers the creation of pods with a code, or with 0 not at all, while it is to.
type refusing struct {
	http.RoundTripper
	refuses atomic.Bool
	code    int
	ports   atomic.Int32
}

func (f *refusing) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") || !f.refuses.Load():
		return f.RoundTripper.RoundTrip(r)
	case f.code == 0:
		return nil, fmt.Errorf("read tcp 10.1.0.7:%d->10.96.0.1:443: %w", 30000+f.ports.Add(1), syscall.ECONNRESET)
	}

	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d,"message":"not now"}`

	return apiserver.Respond(r, f.code, fmt.Appendf(nil, status, f.code)), nil
}

// TestTransientRefusals: a second without the API server concerns nobody. What lasts is told once, with the cause and
// what to do, and what the API server refuses for good is told at once.
func TestTransientRefusals(t *testing.T) {
	const remedy = "; this lasts, and the dispatcher goes on trying: " +
		"an administrator has to look at the API server and its webhooks"
	for name, c := range map[string]struct {
		code    int
		lasts   time.Duration
		told    int // how often, of each claim
		cause   string
		forLong bool
	}{
		"no answer, for a second": {lasts: time.Second},
		"429, for a second":       {code: 429, lasts: time.Second},
		"500, for a second":       {code: 500, lasts: time.Second},
		"503, for a second":       {code: 503, lasts: time.Second},
		"conflict, for a second":  {code: 409, lasts: time.Second},
		"no answer, for a minute": {lasts: time.Minute, told: 1, cause: "connection reset by peer", forLong: true},
		"429, for a minute":       {code: 429, lasts: time.Minute, told: 1, cause: "not now", forLong: true},
		"500, for a minute":       {code: 500, lasts: time.Minute, told: 1, cause: "not now", forLong: true},
		"403, for a second":       {code: 403, lasts: time.Second, told: 1, cause: "not now"},
		"422, for a minute":       {code: 422, lasts: time.Minute, told: 1, cause: "not now"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				api := &refusing{RoundTripper: p.server, code: c.code}
				p.api = api
				registry := prometheus.NewRegistry()
				defer p.dispatchWith(registry)()

				p.class("a.good", nil)
				p.play(5 * time.Second)
				for i := range 2 {
					api.refuses.Store(true)
					claim := fmt.Sprint("data-", i)
					p.claim(claim, "a.good")
					time.Sleep(c.lasts)
					if got := p.waits(claim); strings.HasPrefix(got, "ProvisionerPodRefused ") != (c.told > 0) {
						t.Errorf("while it waits, %s says %q", claim, got)
					}

					api.refuses.Store(false)
					p.play(time.Minute)
				}

				said := p.said("ProvisionerPodRefused")
				if len(said) != 2*c.told || p.told("ProvisionerPodRefused") != int32(2*c.told) {
					t.Errorf("it is told %d times: %q, want %d", p.told("ProvisionerPodRefused"), said, 2*c.told)
				}

				for _, text := range said {
					if !strings.Contains(text, c.cause) || strings.HasSuffix(text, remedy) != c.forLong {
						t.Errorf("told is %q", text)
					}
				}

				if got := failures(t, registry, "ProvisionerPodRefused"); got != float64(2*c.told) {
					t.Errorf("%v failures are counted, want %d", got, 2*c.told)
				}

				for _, claim := range []string{"data-0", "data-1"} {
					if got := p.waits(claim); got != "" {
						t.Errorf("in the end %s says %q", claim, got)
					}
				}

				if n := p.remaining(apiserver.Volumes); n != 2 {
					t.Errorf("there are %d volumes", n)
				}
			})
		})
	}
}

// failures is the metric of a reason.
func failures(t *testing.T, registry *prometheus.Registry, reason string) (n float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}

	for _, family := range families {
		for _, m := range family.Metric {
			last := len(m.Label) - 1
			if family.GetName() == "flex_provisioner_failures_total" && m.Label[last].GetValue() == reason {
				n += m.Counter.GetValue()
			}
		}
	}

	return n
}

package recorder

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestEnd: at its end, a dispatcher writes for a moment what is left. One that lost the Lease writes nothing more.
func TestEnd(t *testing.T) {
	const burst = 300 // of the client, which writes 50 a second after that
	refused := func(*http.Request) (int, error) { return 0, syscall.ECONNREFUSED }
	for name, c := range map[string]struct {
		cause  error
		events int
		refuse func(*http.Request) (int, error)
		told   [2]int // at least and at most
		within time.Duration
	}{
		"all is written":           {events: burst, told: [2]int{burst, burst}},
		"a few are left":           {events: burst + 20, told: [2]int{burst + 20, burst + 20}, within: time.Second},
		"many are left":            {events: burst + 1000, told: [2]int{burst + 90, burst + 110}, within: drainFor},
		"the API server is gone":   {events: 10, refuse: refused},
		"the Lease was lost":       {cause: ErrLeaseLost, events: burst + 1000, told: [2]int{burst, burst + maxWrites}},
		"lost with the API server": {cause: ErrLeaseLost, events: 10, refuse: refused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &api{Server: apiserver.New(), refuse: c.refuse}
				r := New(NewMetrics(prometheus.NewRegistry()), time.Now)
				ctx, end := context.WithCancelCause(klog.NewContext(t.Context(), klog.New(nil)))
				stop := r.Start(ctx, apiserver.Client(api))
				for i := range c.events {
					r.Record(subjectOf(i), lacks(0), PodLog{})
				}

				synctest.Wait()
				end(c.cause)
				synctest.Wait()
				began := time.Now()
				stop()
				if took := time.Since(began); took > c.within {
					t.Errorf("it ended after %s, want %s at most", took, c.within)
				}

				n := len(api.told())
				if n < c.told[0] || n > c.told[1] {
					t.Errorf("%d events were written, want %v", n, c.told)
				}

				if time.Sleep(time.Hour); len(api.told()) != n {
					t.Errorf("afterwards %d are written", len(api.told())-n)
				}
			})
		})
	}
}

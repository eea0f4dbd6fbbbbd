package dispatcher

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/tracing"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestTraces: each attempt is told of once, whichever dispatcher leads when its outcome is acted on, and each claim once it is bound.
func TestTraces(t *testing.T) {
	inBubble(t, func(p tenants) {
		var mu sync.Mutex
		spans := map[trace.TraceID][]tracing.Span{}
		p.trace = func(list []tracing.Span) {
			mu.Lock()
			defer mu.Unlock()
			for _, s := range list {
				spans[s.Trace] = append(spans[s.Trace], s)
			}
		}
		stop := p.dispatch()
		p.class("a.good", nil)
		p.class("b.fails", nil)
		p.play(5 * time.Second)
		p.claim("served", "a.good")
		p.claim("fails", "b.fails")
		p.play(time.Minute)
		stop()
		p.claim("early", "a.good")
		p.play(10 * time.Second)
		stop = p.dispatch()
		p.play(3 * time.Minute)
		stop()
		for _, claim := range p.objects(apiserver.Claims) {
			of := spans[tracing.TraceID(string(claim.GetUID()))]
			var names []string
			ids := map[trace.SpanID]bool{}
			for _, s := range of {
				names = append(names, s.Name)
				if ids[s.ID] {
					t.Errorf("claim %s has span %s twice", claim.GetName(), s.Name)
				}
				ids[s.ID] = true
			}
			slices.Sort(names)
			if claim.GetName() != "fails" {
				if got, want := strings.Join(names, " "), "attempt bind provision run schedule start wait"; got != want {
					t.Errorf("claim %s has the spans %s, want %s", claim.GetName(), got, want)
				}
				continue
			}
			pods := 0
			for name := range p.ran {
				if strings.HasPrefix(name, "prov-"+string(claim.GetUID())) {
					pods++
				}
			}
			attempts := slices.DeleteFunc(names, func(name string) bool { return name != tracing.Attempt })
			if len(attempts) < 3 || len(attempts) < pods-1 { // the newest pod stays until the next one is due
				t.Errorf("%d of %d pods of claim %s have a span", len(attempts), pods, claim.GetName())
			}
		}
	})
}

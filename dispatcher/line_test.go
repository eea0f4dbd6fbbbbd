package dispatcher

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// meanwhile does something while the first patch of a claim's status is under way.
type meanwhile struct {
	http.RoundTripper
	done atomic.Bool
	do   func()
}

func (m *meanwhile) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/persistentvolumeclaims/x/status") && !m.done.Swap(true) {
		m.do()
	}

	return m.RoundTripper.RoundTrip(r)
}

// A user asks for more while the dispatcher is about to forget the claim. The claim waits for a slot then, and leaves the line with it. What
// it leaves in line is requeued for ever, so that time stands still in the bubble.
func TestChangeWhileForgotten(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.api = &meanwhile{RoundTripper: p.server, do: func() {
			p.server.Mutate(apiserver.Claims, "team", "x", func(o apiserver.Object) {
				o.(*corev1.PersistentVolumeClaim).Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}
			})
			time.Sleep(time.Second)
		}}
		stop := p.dispatch()
		p.class("a.good", map[string]string{"max-concurrent": "1", "expand": "true"})
		p.play(5 * time.Second)
		p.claim("x", "a.good")
		p.play(20 * time.Second)
		p.claim("h", "a.good")
		time.Sleep(2 * time.Second)
		p.server.Mutate(apiserver.Claims, "team", "x", func(o apiserver.Object) {
			status := &o.(*corev1.PersistentVolumeClaim).Status
			status.Conditions = append(status.Conditions, corev1.PersistentVolumeClaimCondition{Type: contract.ConditionWaiting, Status: corev1.ConditionTrue, Reason: "x"})
		})
		time.Sleep(30 * time.Second)
		if said := p.said("ConcurrencyLimitReached"); len(said) != 1 {
			t.Errorf("that x waits for a slot is said %d times", len(said))
		}

		p.play(30 * time.Second)
		p.claim("y", "a.good")
		p.play(time.Minute)
		for _, name := range []string{"x", "h", "y"} {
			claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", name)
			if claim.Status.Phase != corev1.ClaimBound {
				t.Errorf("claim %s is %s", name, claim.Status.Phase)
			}
		}

		stop()
	})
}

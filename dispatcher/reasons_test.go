package dispatcher

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// waits is what the claim's status says of its wait, with how long ago it was written.
func (p tenants) waits(name string) string {
	claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", name)
	if claim == nil {
		return "no claim"
	}

	c, ok := observed.WaitingCondition(claim)
	if !ok {
		return ""
	}

	return fmt.Sprintf("%s %s %s", c.Reason, time.Since(c.LastProbeTime.Time).Truncate(time.Minute), c.Message)
}

// patches counts the patches of claims' status.
type patches struct {
	http.RoundTripper
	n atomic.Int32
}

func (c *patches) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/status") {
		c.n.Add(1)
	}

	return c.RoundTripper.RoundTrip(r)
}

// TestReasonsStay: a claim says why it waits for as long as it does, also after its events are gone and when no dispatcher ran as it
// was bound. Nothing is written of one that is served.
func TestReasonsStay(t *testing.T) {
	inBubble(t, func(p tenants) {
		api := &patches{RoundTripper: p.server}
		p.api = api
		stop := p.dispatch()
		p.class("a.good", nil)
		p.class("b.fails", nil)
		p.class("c.good", nil)
		p.configMap("second", "c.good")
		p.play(5 * time.Second)
		for i := range 10 {
			p.claim(fmt.Sprint("served-", i), "a.good")
		}

		p.play(time.Minute)
		if n := api.n.Load(); n != 0 {
			t.Errorf("the status of claims that are served was patched %d times", n)
		}

		p.claim("waits", "c.good")
		p.claim("fails", "b.fails")
		const two = `class "c.good" has 2 provisioner ConfigMaps, c.good among them: an administrator has to remove all but one`
		p.play(10*time.Minute + 2*time.Second) // a missing ConfigMap is told after two seconds
		if got := p.waits("waits"); got != "ProvisionerConfigMissing 10m0s "+two {
			t.Errorf("the claim that waits says %q", got)
		}

		if got := p.waits("fails"); !strings.HasPrefix(got, "ProvisionerFailed ") {
			t.Errorf("the claim that fails says %q", got)
		}

		before := api.n.Load()
		if before > 20 {
			t.Errorf("%d patches in ten minutes of two claims", before)
		}

		for _, e := range p.objects(apiserver.Events) {
			p.remove(apiserver.Events, e.GetNamespace(), e.GetName())
		}

		// A dispatcher that starts anew writes nothing that is there.
		stop()
		p.remove(apiserver.Claims, "team", "fails")
		stop = p.dispatch()
		p.play(5 * time.Minute)
		if got := p.waits("waits"); got != "ProvisionerConfigMissing 15m0s "+two || api.n.Load() != before {
			t.Errorf("after a restart it says %q, by %d patches", got, api.n.Load()-before)
		}

		p.remove(apiserver.ConfigMaps, "ns", "second")
		p.play(time.Minute)
		if got := p.waits("waits"); got != "" {
			t.Errorf("the claim is served, and says %q", got)
		}

		stop()
		// Bound while no dispatcher ran.
		p.server.Mutate(apiserver.Claims, "team", "waits", func(o apiserver.Object) {
			o.(*corev1.PersistentVolumeClaim).Status.Conditions = []corev1.PersistentVolumeClaimCondition{
				{Type: "flex-provisioner.io/Waiting", Status: corev1.ConditionTrue, Reason: "ProvisionerFailed"}, {Type: "Of/Another", Status: corev1.ConditionTrue}}
		})
		stop = p.dispatch()
		p.play(time.Minute)
		claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", "waits")
		if list := claim.Status.Conditions; len(list) != 1 || list[0].Type != "Of/Another" {
			t.Errorf("the bound claim has the conditions %v, want the other's alone", list)
		}

		stop()
	})
}

// TestRemind: what stands is told again about every hour, on claims, volumes and ConfigMaps, and nothing else is.
func TestRemind(t *testing.T) {
	inBubble(t, func(p tenants) {
		stop := p.dispatch()
		p.class("a.good", nil)
		p.class("b.good", map[string]string{"timeout": "never"})
		p.play(5 * time.Second)
		p.claim("served", "a.good")
		p.claim("released", "a.good")
		p.play(10 * time.Second)
		p.create(apiserver.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "stop-deletes"}, Data: map[string]string{"reason": "x"}})
		p.claim("waits", "b.good")
		p.remove(apiserver.Claims, "team", "released")
		p.play(time.Minute)
		for hours := range int32(4) {
			for reason, objects := range map[string]int32{"ConfigInvalid": 1, "ProvisionerConfigMissing": 1, "DeletionStopped": 2} { // the ConfigMap and the volume
				if got, want := p.told(reason), objects*(hours+1); got != want {
					t.Errorf("after %d hours %s was told %d times, want %d", hours, reason, got, want)
				}
			}

			p.play(time.Hour + time.Minute)
		}

		if n := p.told("ProvisioningSucceeded"); n > 2 {
			t.Errorf("two successes were told %d times", n)
		}

		stop()
	})
}

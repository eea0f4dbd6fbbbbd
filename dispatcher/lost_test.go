package dispatcher

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// failing answers every write of an event with an error, while it is to.
type failing struct {
	http.RoundTripper
	fails atomic.Bool
	tries atomic.Int32
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/events") || !f.fails.Load() {
		return f.RoundTripper.RoundTrip(r)
	}

	f.tries.Add(1)

	return &http.Response{StatusCode: http.StatusInternalServerError, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(strings.NewReader(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcdserver: request timed out"}`))}, nil
}

// TestLostEvents: what keeps a claim waiting, and what is wrong with a ConfigMap, is said for as long as the API server does not take
// it, and once after that.
func TestLostEvents(t *testing.T) {
	inBubble(t, func(p tenants) {
		api := &failing{RoundTripper: p.server}
		p.api = api
		api.fails.Store(true)
		defer p.dispatch()()

		p.class("silver", nil)
		p.create(apiserver.ConfigMaps, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "broken", Labels: map[string]string{"storage-class": "gold", "type": "provisioner-config"}},
			Data: map[string]string{"plugin-name": "p"}})
		p.claim("data", "silver")
		p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) {
			o.(*corev1.PersistentVolumeClaim).Spec.VolumeAttributesClassName = new("fast")
		})
		time.Sleep(time.Hour)
		if tries := api.tries.Load(); tries < 100 || tries > 140 {
			t.Errorf("%d events were tried in an hour, want one a minute for the claim and one for the ConfigMap", tries)
		}

		api.fails.Store(false)
		time.Sleep(sayAgain)
		for _, reason := range []string{"ClaimRefused", "ConfigInvalid"} {
			if said := p.said(reason); len(said) != 1 {
				t.Errorf("%s: %q", reason, said)
			}
		}

		before := fmt.Sprint(p.told("ClaimRefused"), p.told("ConfigInvalid"))
		time.Sleep(30 * time.Minute)
		if after := fmt.Sprint(p.told("ClaimRefused"), p.told("ConfigInvalid")); after != before {
			t.Errorf("they were told %s times, and half an hour later %s", before, after)
		}
	})
}

// sayAgain is more than the time after which the dispatcher says a lost event again.
const sayAgain = time.Minute + 10*time.Second

package dispatcher

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/podspec"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// deadKubelets answer no request for a log, as long as somebody waits.
type deadKubelets struct{ http.RoundTripper }

func (d deadKubelets) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/log") {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}

	return d.RoundTripper.RoundTrip(r)
}

// TestDeadNode: the pods of forty claims failed on a node that is gone by now. Their logs cannot be read, which is told
// of each within ten seconds, in its status at once, and which delays no other claim of the class.
func TestDeadNode(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.api = deadKubelets{p.server}
		defer p.dispatch()()

		p.class("a.fails", nil)
		time.Sleep(5 * time.Second)
		const failing = 40
		for i := range failing {
			p.claim(fmt.Sprint("fails-", i), "a.fails")
		}

		p.play(time.Second)
		time.Sleep(500 * time.Millisecond)
		p.claim("new", "a.fails")
		time.Sleep(100 * time.Millisecond)
		claim, _ := apiserver.Get[*corev1.PersistentVolumeClaim](p.server, apiserver.Claims, "team", "new")
		pod := podspec.Name(contract.Provision, string(claim.UID), 0)
		if _, ok := apiserver.Get[*corev1.Pod](p.server, apiserver.Pods, "ns", pod); !ok {
			t.Errorf("a tenth of a second after its creation, the new claim has no pod")
		}

		for i := range failing {
			got := p.waits(fmt.Sprint("fails-", i))
			if !strings.HasPrefix(got, "ProvisionerFailed 0s the container exited with code 1 and left no message") {
				t.Errorf("half a second after its pod failed, the status of claim fails-%d says %q", i, got)
			}
		}

		time.Sleep(9 * time.Second)
		told := map[string]bool{}
		for _, said := range p.said("ProvisionerFailed") {
			if strings.HasSuffix(said, "; its log cannot be read") {
				claim, _, _ := strings.Cut(said, ":")
				told[claim] = true
			}
		}

		if len(told) != failing {
			t.Errorf("within ten seconds %d of %d claims are told why: %q", len(told), failing, p.said("ProvisionerFailed"))
		}
	})
}

package dispatcher

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// slowKubelets take a second for a log.
type slowKubelets struct{ http.RoundTripper }

func (s slowKubelets) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/log") {
		time.Sleep(time.Second)
	}

	return s.RoundTripper.RoundTrip(r)
}

// TestPodStaysForItsLog: a failed pod whose log is being read is not removed before that, although the next attempt is
// made at once. The log would be gone with it.
func TestPodStaysForItsLog(t *testing.T) {
	inBubble(t, func(p tenants) {
		p.api = slowKubelets{p.server}
		defer p.dispatch()()

		p.class("a.fails", map[string]string{"failed-pod-ttl": "0s"})
		p.play(5 * time.Second)
		p.claim("data", "a.fails")
		pods := func() (numbers string) {
			for _, pod := range apiserver.List[*corev1.Pod](p.server, apiserver.Pods) {
				numbers += pod.Name[strings.LastIndex(pod.Name, "-"):] + " " + string(pod.Status.Phase) + " "
			}

			return numbers
		}
		for range 20 {
			if p.play(time.Second); strings.Contains(pods(), "-1 Failed") {
				break
			}
		}

		p.edit("a.fails", map[string]string{"timeout": "1m"}) // that may be the cure
		time.Sleep(100 * time.Millisecond)
		if got, want := pods(), "-0 Failed -1 Failed -2 Pending "; got != want {
			t.Errorf("while the log is being read there are the pods %s, want %s", got, want)
		}

		if p.play(10 * time.Second); strings.Contains(pods(), "-1 ") {
			t.Errorf("beside later attempts there are the pods %s", pods())
		}

		said := slices.DeleteFunc(p.said("ProvisionerLog"), func(text string) bool {
			return !strings.Contains(text, "-1 for claim team/data: the last line of the log")
		})
		if len(said) != 1 {
			t.Errorf("of the log is said %q", p.said("ProvisionerLog"))
		}
	})
}

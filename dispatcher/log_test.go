package dispatcher

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// noPods answers the first creation of a pod with an error.
type noPods struct {
	http.RoundTripper
	answered atomic.Bool
}

func (n *noPods) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/pods") || n.answered.Swap(true) {
		return n.RoundTripper.RoundTrip(r)
	}

	return nil, errors.New("connection reset by peer")
}

// TestLogKeys: every line about a claim has the claim, its UID, its class and the pod, whichever part of the dispatcher wrote it.
func TestLogKeys(t *testing.T) {
	inBubble(t, func(p tenants) {
		var mu sync.Mutex
		seen := map[string]string{} // a line of each message
		p.log = funcr.NewJSON(func(line string) {
			var record map[string]any
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Errorf("%s: %v", line, err)
			}

			mu.Lock()
			defer mu.Unlock()

			of, about := record["claimUID"]
			if _, pod := record["pod"]; !about && !pod {
				return
			}

			for _, key := range []string{"claim", "claimUID", "class", "pod"} {
				if _, ok := record[key].(string); !ok {
					t.Errorf("a line lacks %s: %s", key, line)
				}
			}

			if of != "" && record["claim"] == "" {
				t.Errorf("a line about a claim does not name it: %s", line)
			}

			seen[fmt.Sprint(record["msg"])] = line
		}, funcr.Options{Verbosity: 4}).GetSink()
		p.api = &noPods{RoundTripper: p.server}
		stop := p.dispatchWith(prometheus.NewRegistry())
		p.class("a.good", nil)
		p.class("b.fails", nil)
		p.play(5 * time.Second)
		p.claim("served", "a.good")
		p.claim("fails", "b.fails")
		p.play(time.Minute)
		p.server.Mutate(apiserver.Volumes, "", p.objects(apiserver.Volumes)[0].GetName(), func(o apiserver.Object) { o.SetFinalizers(nil) })
		p.remove(apiserver.Volumes, "", p.objects(apiserver.Volumes)[0].GetName())
		p.play(time.Minute)
		stop()
		for _, message := range []string{"Created provisioner pod", "Reported", "Could not reconcile, will retry"} {
			if seen[message] == "" {
				t.Errorf("nothing was logged as %q: %v", message, seen)
			}
		}
	})
}

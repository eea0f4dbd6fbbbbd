//go:build integration

package likeness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// record is what a dispatcher did. It is an http.RoundTripper before the real one.
type record struct {
	next  http.RoundTripper
	mu    sync.Mutex
	calls []call
	// faults are what goes wrong next, by verb and resource, or by these and a name: "create pods", "patch pods prov-0".
	faults map[string][]fault
	// cut, once closed, breaks the watches that were begun before.
	cut chan struct{}
}

// fault is what becomes of a call: an answer of an API server in trouble, or none (code 0), before the call takes effect or after.
type fault struct {
	after bool
	code  int
}

type call struct {
	verb, resource, name string
	code                 int
	body, reason         string // what was sent, and why it was refused
	lost                 bool   // it took effect, and its answer did not arrive
}

// RoundTrip notes the calls about claims, volumes and pods, other than those of informers.
func (r *record) RoundTrip(hr *http.Request) (*http.Response, error) {
	copied := hr.Clone(hr.Context())
	if hr.GetBody != nil {
		copied.Body, _ = hr.GetBody()
	} else {
		copied.Body = nil
	}
	asked, err := apiserver.Read(copied)
	if err != nil || !slices.Contains([]string{apiserver.Pods, apiserver.Claims, apiserver.Volumes}, asked.Resource) || asked.Subresource == "log" || asked.Verb == "watch" {
		response, failed := r.next.RoundTrip(hr)
		if failed == nil && asked != nil && asked.Verb == "watch" {
			r.mu.Lock()
			response.Body = &breakable{response.Body, r.cut}
			r.mu.Unlock()
		}
		return response, failed
	}
	c := call{verb: asked.Verb, resource: asked.Resource, name: asked.Named(), body: string(asked.Body())}
	if asked.Verb == "list" {
		c.name = hr.URL.Query().Get("labelSelector")
	}
	response, lost, failed := r.send(hr, asked.Verb+" "+asked.Resource, asked.Verb+" "+asked.Resource+" "+asked.Named())
	c.lost = lost
	if failed == nil {
		c.code = response.StatusCode
		c.reason = reasonOf(response)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
	return response, failed
}

func (r *record) send(hr *http.Request, names ...string) (response *http.Response, lost bool, err error) {
	r.mu.Lock()
	var drawn *fault
	for _, what := range names {
		if of := r.faults[what]; len(of) > 0 && drawn == nil {
			drawn, r.faults[what] = &of[0], of[1:]
		}
	}
	r.mu.Unlock()
	if drawn == nil || drawn.after {
		response, err := r.next.RoundTrip(hr)
		if err != nil || drawn == nil {
			return response, false, err
		}
		_ = response.Body.Close()
	}
	if drawn.code == 0 {
		return nil, drawn.after, syscall.ECONNRESET
	}
	code, answer := apiserver.Failure(apiserver.Status(drawn.code, metav1.StatusReasonInternalError, "a fault of the test"))
	return apiserver.Respond(hr, code, answer), drawn.after, nil
}

// reasonOf is why a request was refused. The answer can be read once more.
func reasonOf(response *http.Response) string {
	if response.StatusCode < 300 {
		return ""
	}
	data, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	response.Body = io.NopCloser(bytes.NewReader(data))
	var status metav1.Status
	if err != nil || json.Unmarshal(data, &status) != nil {
		return string(data)
	}
	return string(status.Reason)
}

// breakable is a watch that ends when cut is closed.
type breakable struct {
	io.ReadCloser
	cut <-chan struct{}
}

// Read implements io.Reader. The body is closed to end a read that waits.
func (b *breakable) Read(p []byte) (int, error) {
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-b.cut:
			_ = b.Close()
		case <-done:
		}
	}()
	return b.ReadCloser.Read(p)
}

// cutWatches breaks all watches.
func (r *record) cutWatches() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.cut)
	r.cut = make(chan struct{})
}

// of is what was done about a claim, a line each: what was read before anything was created; what was created, in that order; and which
// writes each object saw, with what was sent and their answers. How often and in which order they came, what was read later, whether
// somebody writes to what is gone or has changed, whether a write is sent again that took effect although its answer was lost, and
// what is written until the next attempt, which may be due by then, is a matter of when watches arrive.
func (r *record) of(claim, uid string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var created, objects []string
	done, lost := map[string][]string{}, map[string]bool{}
	for _, c := range r.calls {
		if !strings.Contains(c.name, uid) && c.name != claim {
			continue
		}
		object := c.resource + " " + strings.ReplaceAll(c.name, uid, claim)
		reads := c.verb == "get" || c.verb == "list"
		switch {
		case reads && len(created) > 0, !reads && c.code == http.StatusNotFound, c.reason == string(metav1.StatusReasonConflict):
			continue
		case strings.Contains(c.body, contract.ConditionWaiting), strings.Contains(c.body, settled):
			continue
		case c.verb == "patch" && c.code == http.StatusOK && lost[object+c.body]:
			continue
		case c.verb == "create":
			created = append(created, object)
		}
		lost[object+c.body] = lost[object+c.body] || c.verb == "patch" && c.lost
		if done[object] == nil {
			objects = append(objects, object)
		}
		answered := fmt.Sprintf("%s -> %d %s", c.verb, c.code, c.reason)
		if !reads {
			answered += " " + likely.ReplaceAllString(strings.NewReplacer(uid, claim, ended, "").Replace(c.body), "X")
		}
		if !slices.Contains(done[object], answered) {
			done[object] = append(done[object], answered)
		}
	}
	slices.Sort(objects)
	lines := []string{"created " + strings.Join(created, ", ")}
	for _, object := range objects {
		slices.Sort(done[object])
		for _, answered := range done[object] {
			lines = append(lines, object+": "+answered)
		}
	}
	return strings.Join(lines, "\n")
}

// ended is sent by who knows that a pod that it deletes has ended, which is a matter of when watches arrive too.
const ended = `"gracePeriodSeconds":0,`

// settled is the mark of a failed pod that waits for the next attempt.
const settled = `{"metadata":{"annotations":{"` + contract.AnnSettled + `":"true"}`

// likely is what differs between two API servers by nature: UIDs, versions, times and what is signed.
var likely = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|resourceVersion\\*"?: ?\\*"\d+\\*"|` +
	`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|` + regexp.QuoteMeta(contract.AnnRecord) + `"?: ?"?[A-Za-z0-9+/=:_.-]+|/\d+@`)

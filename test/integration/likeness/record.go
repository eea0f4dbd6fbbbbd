//go:build integration

package likeness

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// record is what a dispatcher did. It is an http.RoundTripper before the real one.
type record struct {
	next  http.RoundTripper
	mu    sync.Mutex
	calls []call
}

type call struct {
	verb, resource, name string
	code                 int
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
	response, failed := r.next.RoundTrip(hr)
	if err != nil || failed != nil {
		return response, failed
	}
	if slices.Contains([]string{apiserver.Pods, apiserver.Claims, apiserver.Volumes}, asked.Resource) && asked.Subresource != "log" {
		r.mu.Lock()
		defer r.mu.Unlock()
		name := asked.Named()
		if asked.Verb == "list" {
			name = hr.URL.Query().Get("labelSelector")
		}
		r.calls = append(r.calls, call{asked.Verb, asked.Resource, name, response.StatusCode})
	}
	return response, nil
}

// of is what was done about a claim: what was read before anything was created; what was created, in that order; and which
// writes each object saw, with their answers. How often and in which order they came, what was read later, and whether
// somebody writes to what is gone, is a matter of when watches arrive.
func (r *record) of(claim, uid string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var created, objects []string
	done := map[string][]string{}
	for _, c := range r.calls {
		if !strings.Contains(c.name, uid) && c.name != claim {
			continue
		}
		object := c.resource + " " + strings.ReplaceAll(c.name, uid, claim)
		reads := c.verb == "get" || c.verb == "list"
		switch {
		case reads && len(created) > 0, !reads && c.code == http.StatusNotFound:
			continue
		case c.verb == "create":
			created = append(created, object)
		}
		if done[object] == nil {
			objects = append(objects, object)
		}
		if answered := fmt.Sprintf("%s -> %d", c.verb, c.code); !slices.Contains(done[object], answered) {
			done[object] = append(done[object], answered)
		}
	}
	slices.Sort(objects)
	lines := []string{"created " + strings.Join(created, ", ")}
	for _, object := range objects {
		slices.Sort(done[object])
		lines = append(lines, object+": "+strings.Join(done[object], ", "))
	}
	return strings.Join(lines, "\n")
}

package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// serve starts a server without keep-alive: a client whose connection is closed under it must not quietly send the request
// again on another, as Go's does where the connection had been used before.
func serve(t testing.TB, handler http.HandlerFunc) (url string) {
	s := httptest.NewUnstartedServer(handler)
	s.Config.SetKeepAlivesEnabled(false)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// request is one call to Cinder or Keystone, understood.
type request struct {
	http    *http.Request
	host    string // as the caller wrote it, for links
	id      string // what {id} of the route stands for
	action  string
	body    []byte
	fields  map[string]json.RawMessage // of the body; nil where it is no object
	minor   int                        // of the microversion
	user    string
	project string
	admin   bool
}

func newRequest(r *http.Request) *request {
	q := &request{http: r, host: "http://" + r.Host}
	q.body, _ = io.ReadAll(r.Body)
	_ = json.Unmarshal(q.body, &q.fields)
	return q
}

func (q *request) get(name string) string { return q.http.URL.Query().Get(name) }

// decode reads the body's field name into v. What does not parse is refused as Cinder does.
func (q *request) decode(name string, v any) answer {
	inner, ok := q.fields[name]
	switch {
	case q.fields == nil:
		return refuse(400, "Malformed request body")
	case !ok:
		return refuse(400, fmt.Sprintf("'%s' is a required property", name))
	}
	if err := json.Unmarshal(inner, v); err != nil {
		return refuse(400, fmt.Sprintf("Invalid input for field/attribute %s. Value: %s.", name, inner))
	}
	return answer{}
}

type route struct {
	op    string // "METHOD /path/{id}"
	serve func(*Cinder, *request) answer
	since int // the microversion 3.N before which there is no such route
}

// cinderRoutes are what a provisioner asks of Cinder, and the list of volumes by which callers and versions were recorded.
// The first that fits counts.
var cinderRoutes = []route{
	{"GET /", (*Cinder).showVersion, 0},
	{"GET /volumes", (*Cinder).listVolumes, 0},
	{"POST /volumes", (*Cinder).createVolume, 0},
	{"GET /volumes/detail", (*Cinder).listVolumesDetail, 0},
	{"GET /volumes/{id}", (*Cinder).showVolume, 0},
	{"DELETE /volumes/{id}", (*Cinder).deleteVolume, 0},
	{"POST /volumes/{id}/action", (*Cinder).actOnVolume, 0},
	{"GET /snapshots/detail", (*Cinder).listSnapshotsDetail, 0},
	{"POST /snapshots", (*Cinder).createSnapshot, 0},
	{"GET /snapshots/{id}", (*Cinder).showSnapshot, 0},
	{"DELETE /snapshots/{id}", (*Cinder).deleteSnapshot, 0},
	{"GET /attachments/detail", (*Cinder).listAttachmentsDetail, 27},
	{"POST /attachments", (*Cinder).createAttachment, 27},
	{"PUT /attachments/{id}", (*Cinder).updateAttachment, 27},
	{"POST /attachments/{id}/action", (*Cinder).actOnAttachment, 44},
	{"DELETE /attachments/{id}", (*Cinder).deleteAttachment, 27},
	{"GET /types", (*Cinder).listTypes, 0},
	{"GET /types/default", (*Cinder).showDefaultType, 0},
	{"GET /messages", (*Cinder).listMessages, 3},
}

// match finds the route of a method and a path, and what {id} stands for. Without a route op is method and path as they are.
func match(routes []route, method, urlPath string) (found route, id string) {
	call := method + " /" + strings.Trim(urlPath, "/")
	for _, r := range routes {
		before, _, named := strings.Cut(r.op, "{id}")
		fits, _ := path.Match(strings.Replace(r.op, "{id}", "*", 1), call)
		if !fits {
			continue
		}
		if named {
			id, _, _ = strings.Cut(call[len(before):], "/")
		}
		return r, id
	}
	return route{op: method + " " + urlPath}, ""
}

func (f *Cinder) serveCinder(w http.ResponseWriter, r *http.Request) {
	q := newRequest(r)
	op, handle := f.understand(q)
	f.faulty(w, r, Call{Op: op, Method: r.Method, Path: r.URL.Path, ID: q.id, Body: string(q.body)}, func() answer {
		f.settle(false)
		return handle()
	})
}

// faulty logs a call and answers it: the fault before the effect, the effect, the fault after it, the answer.
func (f *Cinder) faulty(w http.ResponseWriter, r *http.Request, call Call, effect func() answer) {
	f.mu.Lock()
	fault := f.faultOn(call)
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if fault != nil && !fault.after && fault.act(w, r, call, answer{}) {
		return
	}
	f.mu.Lock()
	a := effect()
	f.mu.Unlock()
	if fault != nil && fault.after && fault.act(w, r, call, a) {
		return
	}
	a.write(w)
}

// understand finds the operation and what would carry it out.
func (f *Cinder) understand(q *request) (op string, handle func() answer) {
	rest, isV3 := strings.CutPrefix(q.http.URL.Path, "/v3")
	if !isV3 {
		return q.http.Method + " " + q.http.URL.Path, noRoute
	}
	urlProject, rest := cutProject(rest)
	found, id := match(cinderRoutes, q.http.Method, rest)
	if found.serve == nil {
		// Cinder looks for the route before the project, and after the token.
		return found.op, func() answer { return f.admit(q, "", noRoute) }
	}
	q.id, op = id, found.op
	if strings.HasSuffix(op, "/action") {
		for name := range q.fields { // there is one
			op, q.action = name, name
		}
	}
	return op, func() answer {
		return f.admit(q, urlProject, func() answer {
			if q.minor < found.since {
				return refuse(404, "The resource could not be found.")
			}
			return found.serve(f, q)
		})
	}
}

var projectID = regexp.MustCompile(`^[0-9a-f-]+$`)

// cutProject takes the project off a path behind /v3. Since Yoga a first element that is no project's id is a resource.
func cutProject(path string) (project, rest string) {
	first, more, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if first != "" && projectID.MatchString(first) {
		return first, "/" + more
	}
	return "", path
}

// admit checks who calls, the microversion and the project of the URL, in Cinder's order.
func (f *Cinder) admit(q *request, urlProject string, serve func() answer) answer {
	if a := f.authenticate(q); a.status != 0 {
		return a
	}
	a, version := f.admitVersion(q)
	switch {
	case a.status != 0:
	case urlProject != "" && urlProject != q.project:
		a = refuse(400, "Malformed request url")
	default:
		a = serve()
	}
	return a.with("Openstack-Api-Version", "volume "+version)
}

// authenticate finds user and project in the token. Without Keystone the token is "user:project", and everybody is admin.
func (f *Cinder) authenticate(q *request) answer {
	header := q.http.Header.Get("X-Auth-Token")
	if f.keystone == nil {
		q.user, q.project, _ = strings.Cut(header, ":")
		q.admin = true
		return answer{}
	}
	token := f.keystone.valid(header)
	if token == nil {
		return unauthorized(f.identity)
	}
	owner := token.owner
	q.user, q.project, q.admin = owner.userID, owner.ProjectID, slices.Contains(owner.Roles, "admin")
	return answer{}
}

// maxMinor is today's microversion, 3.70.
const maxMinor = 70

// admitVersion reads the microversion; it returns an answer where Cinder would refuse it, and what to say of it.
func (f *Cinder) admitVersion(q *request) (refused answer, version string) {
	version = "3.0"
	if asked, ok := strings.CutPrefix(q.http.Header.Get("OpenStack-API-Version"), "volume "); ok {
		version = asked
	}
	if _, err := fmt.Sscanf(version, "3.%d", &q.minor); err != nil {
		return refuse(400, "API Version String "+version+" is of invalid format. Must be of format MajorNum.MinorNum."), "3.0"
	}
	if q.minor > maxMinor {
		return refuse(406, fmt.Sprintf("Version %s is not supported by the API. Minimum is 3.0 and maximum is 3.%d.", version, maxMinor)), version
	}
	return answer{}, version
}

func (f *Cinder) showVersion(q *request) answer {
	return reply(200, object{"versions": list{object{
		"id": "v3.0", "status": "CURRENT", "version": fmt.Sprintf("3.%d", maxMinor), "min_version": "3.0",
		"updated": "2022-08-31T00:00:00Z",
		"links": list{
			object{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
			object{"rel": "self", "href": q.host + "/v3/"},
		},
		"media-types": list{object{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}},
	}}})
}

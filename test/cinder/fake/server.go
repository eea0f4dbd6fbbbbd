package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
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

// request is one call to Cinder, understood.
type request struct {
	http    *http.Request
	host    string // as the caller wrote it, for links
	id, sub string // what {id} and {sub} of the route stand for
	action  string
	body    []byte
	minor   int // of the microversion
	user    string
	project string
	roles   []string
	query   map[string][]string
}

func (q *request) admin() bool { return slices.Contains(q.roles, "admin") }
func (q *request) get(name string) string {
	if v := q.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

type route struct {
	op    string // "METHOD /path/{id}"
	serve func(*Cinder, *request) answer
}

var cinderRoutes = []route{
	{"GET /", (*Cinder).showVersion},
	{"GET /volumes", (*Cinder).listVolumes},
	{"GET /volumes/detail", (*Cinder).listVolumesDetail},
	{"POST /volumes", (*Cinder).createVolume},
	{"GET /volumes/{id}", (*Cinder).showVolume},
	{"PUT /volumes/{id}", (*Cinder).updateVolume},
	{"DELETE /volumes/{id}", (*Cinder).deleteVolume},
	{"POST /volumes/{id}/action", (*Cinder).actOnVolume},
	{"GET /volumes/{id}/metadata", (*Cinder).showMetadata},
	{"POST /volumes/{id}/metadata", (*Cinder).addMetadata},
	{"PUT /volumes/{id}/metadata", (*Cinder).replaceMetadata},
	{"PUT /volumes/{id}/metadata/{sub}", (*Cinder).setMetadataItem},
	{"DELETE /volumes/{id}/metadata/{sub}", (*Cinder).deleteMetadataItem},
	{"GET /snapshots", (*Cinder).listSnapshots},
	{"GET /snapshots/detail", (*Cinder).listSnapshotsDetail},
	{"POST /snapshots", (*Cinder).createSnapshot},
	{"GET /snapshots/{id}", (*Cinder).showSnapshot},
	{"DELETE /snapshots/{id}", (*Cinder).deleteSnapshot},
	{"GET /attachments", (*Cinder).listAttachments},
	{"GET /attachments/detail", (*Cinder).listAttachmentsDetail},
	{"POST /attachments", (*Cinder).createAttachment},
	{"GET /attachments/{id}", (*Cinder).showAttachment},
	{"PUT /attachments/{id}", (*Cinder).updateAttachment},
	{"DELETE /attachments/{id}", (*Cinder).deleteAttachment},
	{"POST /attachments/{id}/action", (*Cinder).completeAttachment},
	{"GET /types", (*Cinder).listTypes},
	{"GET /types/default", (*Cinder).showDefaultType},
	{"POST /types", (*Cinder).createType},
	{"GET /types/{id}", (*Cinder).showType},
	{"DELETE /types/{id}", (*Cinder).deleteType},
	{"GET /types/{id}/extra_specs", (*Cinder).showExtraSpecs},
	{"GET /limits", (*Cinder).showLimits},
	{"GET /messages", (*Cinder).listMessages},
	{"GET /os-availability-zone", (*Cinder).listZones},
	{"GET /os-services", (*Cinder).listServices},
	{"GET /scheduler-stats/get_pools", (*Cinder).listPools},
	{"GET /os-quota-sets/{id}", (*Cinder).showQuota},
	{"PUT /os-quota-sets/{id}", (*Cinder).setQuota},
}

// match finds the route of a method and a path, and what {id} and {sub} stand for.
func match(routes []route, method, path string) (found route, id, sub string) {
	got := strings.Split(strings.Trim(path, "/"), "/")
	for _, r := range routes {
		m, p, _ := strings.Cut(r.op, " ")
		want := strings.Split(strings.Trim(p, "/"), "/")
		if m != method || len(want) != len(got) {
			continue
		}
		fits := true
		var i, s string
		for n := range want {
			switch want[n] {
			case "{id}":
				i = got[n]
			case "{sub}":
				s = got[n]
			default:
				fits = fits && want[n] == got[n]
			}
		}
		// A route without names goes before one with.
		if fits && (found.op == "" || i == "") {
			found, id, sub = r, i, s
		}
	}
	return found, id, sub
}

// serveCinder answers one call: the fault before the effect, the effect, the fault after it, the answer.
func (f *Cinder) serveCinder(w http.ResponseWriter, r *http.Request) {
	q := &request{http: r, host: "http://" + r.Host, query: r.URL.Query()}
	q.body, _ = io.ReadAll(r.Body)
	op, handle := f.understand(q)
	f.faulty(w, r, Call{Op: op, Method: r.Method, Path: r.URL.Path, ID: q.id, Body: string(q.body)}, false, func() answer {
		f.settle((*transition).due)
		return handle()
	})
}

// faulty runs effect, under the lock, between the two places of a fault, and logs the call.
func (f *Cinder) faulty(w http.ResponseWriter, r *http.Request, call Call, identity bool, effect func() answer) {
	f.mu.Lock()
	fault := f.faultOn(call.Op, identity)
	n := len(f.calls)
	call.Identity = identity
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	if fault != nil && !fault.fault.after && fault.act(w, r, call, answer{}) {
		f.log(n, func(c *Call) { c.Status = fault.fault.answer.status })
		return
	}
	f.mu.Lock()
	a := effect()
	f.mu.Unlock()
	f.log(n, func(c *Call) { c.Effect, c.Status = true, a.status })
	if fault != nil && fault.fault.after && fault.act(w, r, call, a) {
		return
	}
	a.write(w)
}

func (f *Cinder) log(n int, change func(*Call)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n < len(f.calls) {
		change(&f.calls[n])
	}
}

// understand finds the operation and what would carry it out.
func (f *Cinder) understand(q *request) (op string, handle func() answer) {
	path := q.http.URL.Path
	rest, isV3 := strings.CutPrefix(path, "/v3")
	fixed := func(op string, a func() answer) (string, func() answer) { return op, a }
	switch {
	case path == "/":
		return fixed("GET /", func() answer { return f.versions(q, 300) })
	case path == "/healthcheck":
		return fixed("GET /healthcheck", func() answer { return answer{status: 200} })
	case !isV3 || rest != "" && rest[0] != '/':
		return fixed(q.http.Method+" "+path, func() answer { return noRoute(q.http) })
	}
	urlProject, rest := f.cutProject(rest)
	found, id, sub := match(cinderRoutes, q.http.Method, rest)
	if found.op == "" {
		// Cinder looks for the route before the project, and after the token.
		urlProject = ""
		return q.http.Method + " " + path, func() answer { return f.admit(q, urlProject, func() answer { return noRoute(q.http) }) }
	}
	q.id, q.sub, op = id, sub, found.op
	if strings.HasSuffix(op, "/action") {
		if q.action = firstKey(q.body); q.action != "" {
			op = q.action
		}
	}
	return op, func() answer {
		return f.admit(q, urlProject, func() answer { return found.serve(f, q) })
	}
}

var projectID = regexp.MustCompile(`^[0-9a-f-]+$`)

// cutProject takes the project off a path behind /v3. Since Yoga a first element that is no project's id is a resource.
func (f *Cinder) cutProject(path string) (project, rest string) {
	first, more, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if f.settings.anyProject && first != "" && more == "" {
		return first, "/nothing" // a project alone is no route, and neither is a resource without one
	}
	if first != "" && (f.settings.anyProject || projectID.MatchString(first)) {
		return first, "/" + more
	}
	return "", path
}

// admit checks who calls, the microversion and the project of the URL, in Cinder's order.
func (f *Cinder) admit(q *request, urlProject string, serve func() answer) answer {
	if a := f.authenticate(q, urlProject); a.status != 0 {
		return a
	}
	a, version := f.admitVersion(q)
	if a.status == 0 {
		if urlProject != "" && urlProject != q.project {
			a = refuse(400, "Malformed request url")
		} else {
			a = serve()
		}
	}
	if version != "" && !a.unversioned {
		a = a.with("Openstack-Api-Version", "volume "+version).with("Vary", "OpenStack-API-Version")
	}
	return a
}

// authenticate finds user and project in the token. Without Keystone the token is "user:project", and everybody is admin.
func (f *Cinder) authenticate(q *request, urlProject string) answer {
	header := q.http.Header.Get("X-Auth-Token")
	if f.keystone != nil {
		token := f.keystone.valid(header)
		if token == nil {
			return unauthorized().with("Www-Authenticate", fmt.Sprintf("Keystone uri=%q", f.identity+"/v3"))
		}
		q.user, q.project, q.roles = token.owner.userID, token.projectID, token.owner.Roles
		return answer{}
	}
	if header == "" {
		return answer{status: 204, contentType: "text/plain"}.with("X-Auth-Token", "admin:admin").
			with("X-Server-Management-Url", q.host+strings.TrimRight(q.http.URL.Path, "/"))
	}
	user, project, _ := strings.Cut(header, ":")
	if project == "" {
		project = user
	}
	q.user, q.project, q.roles = user, project, []string{"admin"}
	return answer{}
}

var microversion = regexp.MustCompile(`^([1-9]\d*)\.([1-9]\d*|0)$`)

// admitVersion reads the microversion; it returns an answer where Cinder would refuse it, and what to say of it.
func (f *Cinder) admitVersion(q *request) (refused answer, version string) {
	for _, entry := range strings.Split(q.http.Header.Get("OpenStack-API-Version"), ",") {
		service, v, _ := strings.Cut(strings.TrimSpace(entry), " ")
		if service != "volume" {
			continue
		}
		if v == "latest" {
			q.minor = f.settings.maxMinor
			continue
		}
		m := microversion.FindStringSubmatch(v)
		if m == nil {
			return refuse(400, "API Version String "+v+" is of invalid format. Must be of format MajorNum.MinorNum."), ""
		}
		q.minor, _ = strconv.Atoi(m[2])
		if m[1] != "3" || q.minor > f.settings.maxMinor {
			return refuse(406, fmt.Sprintf("Version %s is not supported by the API. Minimum is 3.0 and maximum is 3.%d.", v, f.settings.maxMinor)), v
		}
	}
	return answer{}, fmt.Sprintf("3.%d", q.minor)
}

func (f *Cinder) showVersion(q *request) answer { return f.versions(q, 200) }

func (f *Cinder) versions(q *request, status int) answer {
	a := reply(status, object{"versions": list{object{
		"id": "v3.0", "status": "CURRENT", "version": fmt.Sprintf("3.%d", f.settings.maxMinor), "min_version": "3.0",
		"updated": "2022-08-31T00:00:00Z",
		"links": list{
			object{"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
			object{"rel": "self", "href": q.host + "/v3/"},
		},
		"media-types": list{object{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}},
	}}})
	return a.with("Openstack-Api-Version", "volume 3.0").with("Vary", "OpenStack-API-Version")
}

// firstKey is the name of an action: the first key of the body.
func firstKey(body []byte) string {
	d := json.NewDecoder(strings.NewReader(string(body)))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	key, _ := d.Token()
	name, _ := key.(string)
	return name
}

package fake

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"
)

type keystone struct {
	identities []*Identity
	tokens     map[string]*token
	region     string
	types      []string // of the catalog's block storage services
	interfaces []string
}

type token struct {
	owner     *Identity
	method    string
	projectID string
	issued    time.Time
	expires   time.Time
}

func (k *keystone) valid(id string) *token {
	t := k.tokens[id]
	if t == nil || time.Now().After(t.expires) {
		return nil
	}
	return t
}

var keystoneRoutes = []route{
	{"POST /v3/auth/tokens", (*Cinder).authenticateUser},
	{"GET /v3/auth/tokens", (*Cinder).validateToken},
}

func (f *Cinder) serveKeystone(w http.ResponseWriter, r *http.Request) {
	q := newRequest(r)
	found, _ := match(keystoneRoutes, r.Method, r.URL.Path)
	f.faulty(w, r, Call{Op: found.op, Method: r.Method, Path: r.URL.Path, Identity: true}, func() answer {
		if found.serve == nil {
			return keystoneError(404, "Not Found", "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.")
		}
		return found.serve(f, q)
	})
}

func (f *Cinder) tokenView(q *request, t *token) object {
	i := t.owner
	domain := object{"id": i.domainID(), "name": i.Domain}
	const form = "2006-01-02T15:04:05.000000Z"
	o := object{
		"methods":   strings.Split(t.method, ","),
		"user":      object{"domain": domain, "id": i.userID, "name": i.User, "password_expires_at": nil},
		"audit_ids": list{f.random(22)}, "expires_at": t.expires.UTC().Format(form), "issued_at": t.issued.UTC().Format(form),
	}
	if t.method == "application_credential" {
		o["application_credential"] = object{"id": i.AppCredID, "name": i.AppCredName, "restricted": true}
	}
	roles := list{}
	for _, r := range i.Roles {
		roles = append(roles, object{"id": idOf("role", r), "name": r})
	}
	o["project"] = object{"domain": domain, "id": t.projectID, "name": i.Project}
	o["is_domain"], o["roles"], o["catalog"] = false, roles, f.catalog(q, t.projectID)
	return o
}

func (f *Cinder) catalog(q *request, project string) list {
	endpoint := func(typ, iface, url string) object {
		region := f.keystone.region
		return object{"id": idOf(typ, iface), "interface": iface, "region_id": region, "region": region, "url": url}
	}
	identity := list{}
	for _, name := range []string{"public", "internal", "admin"} {
		identity = append(identity, endpoint("identity", name, q.host+"/v3"))
	}
	all := list{object{"endpoints": identity, "id": idOf("identity"), "type": "identity", "name": "keystone"}}
	for _, typ := range f.keystone.types {
		var endpoints list
		for _, i := range f.keystone.interfaces {
			endpoints = append(endpoints, endpoint(typ, i, f.Endpoint()+"/"+project))
		}
		name := "cinder"
		if strings.HasSuffix(typ, "v3") {
			name += "v3"
		}
		all = append(all, object{"endpoints": endpoints, "id": idOf(typ), "type": typ, "name": name})
	}
	return all
}

// idOf is an id of Keystone's form that is the same each time.
func idOf(names ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(names, "/"))))[:32]
}

func (f *Cinder) validateToken(q *request) answer {
	id := q.http.Header.Get("X-Subject-Token")
	t := f.keystone.valid(id)
	if t == nil || f.keystone.valid(q.http.Header.Get("X-Auth-Token")) == nil {
		return unauthorized(q.host)
	}
	return reply(200, object{"token": f.tokenView(q, t)}).with("X-Subject-Token", id)
}

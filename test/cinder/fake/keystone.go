package fake

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

type keystone struct {
	identities []*Identity
	tokens     map[string]*token
	ttl        time.Duration
	region     string
	types      []string // of the catalog's block storage services
	interfaces []iface
}

// iface is where the catalog says that an interface of Cinder is; an empty URL is the fake's own.
type iface struct{ name, url string }

type token struct {
	owner     *Identity
	method    string
	projectID string // empty: unscoped
	issued    time.Time
	expires   time.Time
	revoked   bool
}

func (k *keystone) valid(id string) *token {
	t := k.tokens[id]
	if t == nil || t.revoked || time.Now().After(t.expires) {
		return nil
	}
	return t
}

var keystoneRoutes = []route{
	{"GET /", (*Cinder).keystoneVersions},
	{"GET /v3", (*Cinder).keystoneVersion},
	{"POST /v3/auth/tokens", (*Cinder).authenticateUser},
	{"GET /v3/auth/tokens", (*Cinder).validateToken},
	{"DELETE /v3/auth/tokens", (*Cinder).revokeToken},
	{"GET /v3/auth/catalog", (*Cinder).showCatalog},
	{"POST /v3/users/{id}/application_credentials", (*Cinder).createAppCred},
	{"DELETE /v3/users/{id}/application_credentials/{sub}", (*Cinder).deleteAppCred},
}

func (f *Cinder) serveKeystone(w http.ResponseWriter, r *http.Request) {
	q := &request{http: r, host: "http://" + r.Host}
	q.body, _ = io.ReadAll(r.Body)
	found, id, sub := match(keystoneRoutes, r.Method, r.URL.Path)
	q.id, q.sub = id, sub
	op := or(found.op, r.Method+" "+r.URL.Path)
	f.faulty(w, r, Call{Op: op, Method: r.Method, Path: r.URL.Path}, true, func() answer {
		if found.op == "" {
			return keystoneError(404, "Not Found", "The requested URL was not found on the server. If you entered the URL manually please check your spelling and try again.")
		}
		return found.serve(f, q).with("Vary", "X-Auth-Token")
	})
}

func keystoneError(status int, title, message string) answer {
	return reply(status, object{"error": object{"code": status, "title": title, "message": message}})
}

func (f *Cinder) keystoneDescription(q *request) object {
	return object{"id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
		"links":       list{object{"rel": "self", "href": q.host + "/v3/"}},
		"media-types": list{object{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}}}
}

func (f *Cinder) keystoneVersions(q *request) answer {
	return reply(300, object{"versions": object{"values": list{f.keystoneDescription(q)}}}).with("Location", q.host+"/v3/")
}

func (f *Cinder) keystoneVersion(q *request) answer {
	return reply(200, object{"version": f.keystoneDescription(q)})
}

func (f *Cinder) rejected(q *request) answer {
	return unauthorized().with("WWW-Authenticate", fmt.Sprintf("Keystone uri=%q", q.host+"/v3"))
}

func (f *Cinder) tokenView(q *request, t *token) object {
	i := t.owner
	domain := object{"id": i.DomainID(), "name": i.Domain}
	const form = "2006-01-02T15:04:05.000000Z"
	o := object{
		"methods":   strings.Split(t.method, ","),
		"user":      object{"domain": domain, "id": i.userID, "name": i.User, "password_expires_at": nil},
		"audit_ids": list{f.random(22)}, "expires_at": t.expires.UTC().Format(form), "issued_at": t.issued.UTC().Format(form),
	}
	if t.projectID == "" {
		return o
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
			endpoints = append(endpoints, endpoint(typ, i.name, or(i.url, f.ProjectEndpoint(project))))
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
	if f.keystone.valid(q.http.Header.Get("X-Auth-Token")) == nil {
		return f.rejected(q)
	}
	t := f.keystone.valid(id)
	if t == nil {
		return keystoneError(404, "Not Found", "Failed to validate token")
	}
	return reply(200, object{"token": f.tokenView(q, t)}).with("X-Subject-Token", id)
}

func (f *Cinder) revokeToken(q *request) answer {
	if f.keystone.valid(q.http.Header.Get("X-Auth-Token")) == nil {
		return f.rejected(q)
	}
	if t := f.keystone.tokens[q.http.Header.Get("X-Subject-Token")]; t != nil {
		t.revoked = true
	}
	return done(204)
}

func (f *Cinder) showCatalog(q *request) answer {
	t := f.keystone.valid(q.http.Header.Get("X-Auth-Token"))
	if t == nil {
		return f.rejected(q)
	}
	return reply(200, object{"catalog": f.catalog(q, t.projectID), "links": object{"self": q.host + "/v3/auth/catalog"}})
}

// createAppCred gives the caller's identity its application credential anew.
func (f *Cinder) createAppCred(q *request) answer {
	var in struct{ Name, Secret string }
	t := f.keystone.valid(q.http.Header.Get("X-Auth-Token"))
	if t == nil || t.owner.userID != q.id {
		return f.rejected(q)
	}
	if a := readBody(q, "application_credential", &in); a.status != 0 {
		return keystoneError(400, "Bad Request", "'application_credential' is a required property")
	}
	i := t.owner
	i.AppCredID, i.AppCredName, i.AppCredSecret = strings.ReplaceAll(f.newID(), "-", ""), in.Name, or(in.Secret, f.random(60))
	f.secrets = append(f.secrets, i.AppCredSecret)
	roles := list{}
	for _, r := range i.Roles {
		roles = append(roles, object{"id": idOf("role", r), "name": r, "domain_id": nil, "description": nil, "options": object{"immutable": true}})
	}
	return reply(201, object{"application_credential": object{
		"id": i.AppCredID, "name": i.AppCredName, "description": nil, "user_id": i.userID, "project_id": i.ProjectID, "system": nil,
		"expires_at": nil, "unrestricted": nil, "roles": roles, "secret": i.AppCredSecret,
		"links": object{"self": q.host + "/v3/application_credentials/" + i.AppCredID},
	}})
}

func (f *Cinder) deleteAppCred(q *request) answer {
	t := f.keystone.valid(q.http.Header.Get("X-Auth-Token"))
	switch {
	case t == nil || t.owner.userID != q.id:
		return f.rejected(q)
	case t.owner.AppCredID != q.sub:
		return keystoneError(404, "Not Found", "Could not find Application Credential: "+q.sub+".")
	}
	t.owner.AppCredID = ""
	return done(204)
}

package fake

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Identity is a user of Keystone with a project, and an application credential to be that user there.
type Identity struct {
	User, Password string
	Domain         string   // name of the user's and the project's domain; its id is "default" for "Default", else the name in lower case
	Project        string   // name
	ProjectID      string   // empty: made up
	Roles          []string // default: reader and member; "admin" may do everything
	AppCredID      string   // application credential; empty: made up, all three
	AppCredName    string
	AppCredSecret  string

	userID string
}

// DefaultIdentity is whom a fake with Keystone knows when it is told nothing else.
var DefaultIdentity = Identity{User: "demo", Password: "demo-password-1", Domain: "Default", Project: "demo"}

// WithKeystone puts Keystone before Cinder, for these identities or for DefaultIdentity.
func WithKeystone(identities ...Identity) Option {
	if len(identities) == 0 {
		identities = []Identity{DefaultIdentity}
	}
	return func(f *Cinder) {
		f.keystone = &keystone{tokens: map[string]*token{}}
		hex := func() string { return strings.ReplaceAll(f.newID(), "-", "") }
		for _, i := range identities {
			i.userID, i.Domain, i.ProjectID = hex(), cmp.Or(i.Domain, "Default"), cmp.Or(i.ProjectID, hex())
			i.AppCredID, i.AppCredName, i.AppCredSecret = cmp.Or(i.AppCredID, hex()), cmp.Or(i.AppCredName, "provisioner"), cmp.Or(i.AppCredSecret, f.random(40))
			if i.Roles == nil {
				i.Roles = []string{"reader", "member"}
			}
			f.secrets = append(f.secrets, i.Password, i.AppCredSecret)
			f.keystone.identities = append(f.keystone.identities, &i)
		}
	}
}

// Identity is the first identity, with all that was made up.
func (f *Cinder) Identity() (i Identity) {
	f.locked(func() { i = *f.keystone.identities[0] })
	return i
}

// RevokeTokens ends all tokens given out so far: the next call with one gets 401.
func (f *Cinder) RevokeTokens() { f.locked(func() { clear(f.keystone.tokens) }) }

// ChangePassword gives the first identity another password. As in Keystone, its tokens end with that.
func (f *Cinder) ChangePassword(to string) {
	f.RevokeTokens()
	f.locked(func() {
		f.keystone.identities[0].Password = to
		f.secrets = append(f.secrets, to)
	})
}

// Token gives out a token of the first identity.
func (f *Cinder) Token() (id string) {
	f.locked(func() { id = f.issue(&token{owner: f.keystone.identities[0], method: "password"}) })
	return id
}

type keystone struct {
	identities []*Identity
	tokens     map[string]*token
}

// token is for its owner's project.
type token struct {
	owner           *Identity
	method          string
	issued, expires time.Time
}

func (k *keystone) find(is func(*Identity) bool) *Identity {
	if i := slices.IndexFunc(k.identities, is); i >= 0 {
		return k.identities[i]
	}
	return nil
}

func (k *keystone) valid(id string) *token {
	t := k.tokens[id]
	if t == nil || time.Now().After(t.expires) {
		return nil
	}
	return t
}

func (f *Cinder) issue(t *token) string {
	t.issued = time.Now()
	t.expires = t.issued.Add(time.Hour)
	id := "gAAAAA" + f.random(60)
	f.keystone.tokens[id] = t
	f.secrets = append(f.secrets, id)
	return id
}

var keystoneRoutes = []route{
	{"POST /v3/auth/tokens", (*Cinder).authenticateUser, 0},
	{"GET /v3/auth/tokens", (*Cinder).validateToken, 0},
}

func (f *Cinder) serveKeystone(w http.ResponseWriter, r *http.Request) {
	q := newRequest(r)
	found, _ := match(keystoneRoutes, r.Method, r.URL.Path)
	f.faulty(w, r, Call{Op: found.op, Method: r.Method, Path: r.URL.Path, Identity: true}, func() answer {
		if found.serve == nil {
			return noRoute()
		}
		return found.serve(f, q)
	})
}

// named is a user or a project in a login.
type named struct {
	Name   string
	Domain struct{ ID, Name string }
}

func (n named) is(name string, i *Identity) bool {
	return n.Name == name && (n.Domain.ID == strings.ToLower(i.Domain) || n.Domain.ID == "" && n.Domain.Name == i.Domain)
}

// login is the body of POST /auth/tokens.
type login struct {
	Identity struct {
		Methods  []string
		Password struct {
			User struct {
				named
				Password string
			}
		}
		AppCred struct{ ID, Secret string } `json:"application_credential"`
	}
	Scope struct{ Project named }
}

func (f *Cinder) authenticateUser(q *request) answer {
	l := &login{}
	if q.decode("auth", l).status != 0 {
		return keystoneError(400, "Bad Request", "Expecting to find auth in request body. The server could not comply with the request since it is either "+
			"malformed or otherwise incorrect. The client is assumed to be in error.")
	}
	t := &token{method: strings.Join(l.Identity.Methods, ",")}
	switch t.method {
	case "password":
		u := l.Identity.Password.User
		t.owner = f.keystone.find(func(i *Identity) bool {
			return u.is(i.User, i) && u.Password == i.Password && l.Scope.Project.is(i.Project, i)
		})
	case "application_credential":
		c := l.Identity.AppCred
		t.owner = f.keystone.find(func(i *Identity) bool { return c.ID == i.AppCredID && c.Secret == i.AppCredSecret })
	}
	if t.owner == nil {
		return unauthorized(q.host)
	}
	id := f.issue(t)
	return reply(201, object{"token": f.tokenView(q, t)}).with("X-Subject-Token", id)
}

func (f *Cinder) validateToken(q *request) answer {
	id := q.http.Header.Get("X-Subject-Token")
	t := f.keystone.valid(id)
	if t == nil || f.keystone.valid(q.http.Header.Get("X-Auth-Token")) == nil {
		return unauthorized(q.host)
	}
	return reply(200, object{"token": f.tokenView(q, t)}).with("X-Subject-Token", id)
}

func (f *Cinder) tokenView(q *request, t *token) object {
	i := t.owner
	domain := object{"id": strings.ToLower(i.Domain), "name": i.Domain}
	const form = "2006-01-02T15:04:05.000000Z"
	roles := list{}
	for _, r := range i.Roles {
		roles = append(roles, object{"id": idOf("role", r), "name": r})
	}
	o := object{
		"methods": list{t.method}, "audit_ids": list{f.random(22)}, "is_domain": false, "roles": roles,
		"user":    object{"domain": domain, "id": i.userID, "name": i.User, "password_expires_at": nil},
		"project": object{"domain": domain, "id": i.ProjectID, "name": i.Project},
		"catalog": list{
			entry("identity", "keystone", q.host+"/v3", "public", "internal", "admin"),
			entry("volumev3", "cinderv3", f.Endpoint()+"/"+i.ProjectID, "public"),
			entry("block-storage", "cinder", f.Endpoint()+"/"+i.ProjectID, "public"),
		},
		"expires_at": t.expires.UTC().Format(form), "issued_at": t.issued.UTC().Format(form),
	}
	if t.method == "application_credential" {
		o["application_credential"] = object{"id": i.AppCredID, "name": i.AppCredName, "restricted": true}
	}
	return o
}

// entry is a service of the catalog.
func entry(typ, name, url string, interfaces ...string) object {
	const region = "RegionOne"
	var endpoints list
	for _, i := range interfaces {
		endpoints = append(endpoints, object{"id": idOf(typ, i), "interface": i, "region_id": region, "region": region, "url": url})
	}
	return object{"endpoints": endpoints, "id": idOf(typ), "type": typ, "name": name}
}

// idOf is an id of Keystone's form that is the same each time.
func idOf(names ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(names, "/"))))[:32]
}

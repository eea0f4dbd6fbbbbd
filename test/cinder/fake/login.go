package fake

import (
	"cmp"
	"slices"
	"strings"
)

// named is a reference to something in a domain, by id or by name.
type named struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Domain struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"domain"`
}

func (n named) is(id, name string, i *Identity) bool {
	if n.ID != "" {
		return n.ID == id
	}
	return n.Name == name && (n.Domain.ID == i.domainID() || n.Domain.ID == "" && strings.EqualFold(n.Domain.Name, i.Domain))
}

// login is the body of POST /auth/tokens.
type login struct {
	Identity struct {
		Methods  []string `json:"methods"`
		Password struct {
			User struct {
				named
				Password string `json:"password"`
			} `json:"user"`
		} `json:"password"`
		AppCred struct {
			ID     string `json:"id"`
			Name   string `json:"name"`
			Secret string `json:"secret"`
			User   named  `json:"user"`
		} `json:"application_credential"`
	} `json:"identity"`
	Scope *struct {
		Project *named `json:"project"`
		Trust   *struct {
			ID string `json:"id"`
		} `json:"OS-TRUST:trust"`
	} `json:"scope"`
}

func (f *Cinder) authenticateUser(q *request) answer {
	l := &login{}
	if q.decode("auth", l).status != 0 {
		return keystoneError(400, "Bad Request", "Expecting to find auth in request body. The server could not comply with the request since it is either "+
			"malformed or otherwise incorrect. The client is assumed to be in error.")
	}
	t := &token{method: strings.Join(l.Identity.Methods, ",")}
	var refused answer
	if t.owner, refused = f.who(q, l); refused.status != 0 {
		return refused
	}
	switch {
	case t.method == "application_credential":
		t.projectID = t.owner.ProjectID
	case l.Scope == nil:
		return unauthorized(q.host)
	case l.Scope.Trust != nil:
		// The trustee, who logged in, gets the trustor's project.
		trustor := f.keystone.find(func(i *Identity) bool { return i.TrustID == l.Scope.Trust.ID })
		if trustor == nil {
			return keystoneError(404, "Not Found", "Could not find Trust: "+l.Scope.Trust.ID+".")
		}
		t.projectID = trustor.ProjectID
	case l.Scope.Project == nil || !l.Scope.Project.is(t.owner.ProjectID, t.owner.Project, t.owner):
		return unauthorized(q.host)
	default:
		t.projectID = t.owner.ProjectID
	}
	id := f.issue(t)
	return reply(201, object{"token": f.tokenView(q, t)}).with("X-Subject-Token", id)
}

// who finds the identity behind a login.
func (f *Cinder) who(q *request, l *login) (*Identity, answer) {
	var found *Identity
	switch strings.Join(l.Identity.Methods, ",") {
	case "password":
		u := l.Identity.Password.User
		found = f.keystone.find(func(i *Identity) bool { return u.is(i.userID, i.User, i) && u.Password == i.Password })
	case "application_credential":
		c := l.Identity.AppCred
		found = f.keystone.find(func(i *Identity) bool {
			return c.ID == i.AppCredID || c.ID == "" && c.Name == i.AppCredName && c.User.is(i.userID, i.User, i)
		})
		if found == nil {
			return nil, keystoneError(404, "Not Found", "Could not find Application Credential: "+cmp.Or(c.ID, c.Name)+".")
		}
		if c.Secret != found.AppCredSecret {
			found = nil
		}
	}
	if found == nil {
		return nil, unauthorized(q.host)
	}
	return found, answer{}
}

func (k *keystone) find(is func(*Identity) bool) *Identity {
	if i := slices.IndexFunc(k.identities, is); i >= 0 {
		return k.identities[i]
	}
	return nil
}

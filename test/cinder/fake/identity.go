package fake

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Identity is a user of Keystone with a project, and the other ways to be that user there.
type Identity struct {
	User, Password string
	Domain         string   // name of the user's and the project's domain; its id is "default" for "Default", else the name in lower case
	Project        string   // name
	ProjectID      string   // empty: made up
	Roles          []string // default: reader and member; "admin" may do everything
	AppCredID      string   // application credential; empty: made up, all three
	AppCredName    string
	AppCredSecret  string
	TrustID        string // a trust that scopes to this project; empty: made up

	userID string
}

// DefaultIdentity is whom a fake with Keystone knows when it is told nothing else.
var DefaultIdentity = Identity{User: "demo", Password: "demo-password-1", Domain: "Default", Project: "demo"}

// WithKeystone puts Keystone before Cinder, for these identities or for DefaultIdentity.
func WithKeystone(identities ...Identity) Option {
	return func(f *Cinder) {
		f.keystone = &keystone{
			tokens: map[string]*token{}, region: "RegionOne", types: []string{"volumev3", "block-storage"}, interfaces: []string{"public"},
		}
		if len(identities) == 0 {
			identities = []Identity{DefaultIdentity}
		}
		for _, i := range identities {
			f.addIdentity(i)
		}
	}
}

// WithRegion sets the catalog's region; the default is RegionOne. It comes after WithKeystone, as the next two do.
func WithRegion(name string) Option { return func(f *Cinder) { f.keystone.region = name } }

// WithInterface adds an interface ("internal", "admin") to the catalog.
func WithInterface(name string) Option {
	return func(f *Cinder) { f.keystone.interfaces = append(f.keystone.interfaces, name) }
}

// WithServiceTypes sets under which types the catalog has Cinder; the default is volumev3 and block-storage.
func WithServiceTypes(types ...string) Option { return func(f *Cinder) { f.keystone.types = types } }

func (f *Cinder) addIdentity(i Identity) {
	hex := func() string { return strings.ReplaceAll(f.newID(), "-", "") }
	i.Domain, i.ProjectID, i.AppCredID = cmp.Or(i.Domain, "Default"), cmp.Or(i.ProjectID, hex()), cmp.Or(i.AppCredID, hex())
	i.AppCredName, i.AppCredSecret, i.TrustID = cmp.Or(i.AppCredName, "provisioner"), cmp.Or(i.AppCredSecret, f.random(40)), cmp.Or(i.TrustID, hex())
	if i.Roles == nil {
		i.Roles = []string{"reader", "member"}
	}
	i.userID = hex()
	f.secrets = append(f.secrets, i.Password, i.AppCredSecret)
	f.keystone.identities = append(f.keystone.identities, &i)
}

// Identity is the first identity, with all that was made up.
func (f *Cinder) Identity() Identity { return f.Identities()[0] }

// Identities are all of them.
func (f *Cinder) Identities() []Identity {
	f.t.Helper()
	if f.keystone == nil {
		f.t.Fatal("the fake has no Keystone: use fake.WithKeystone()")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Identity
	for _, i := range f.keystone.identities {
		all = append(all, *i)
	}
	return all
}

// UserID is the id of the user.
func (i Identity) UserID() string { return i.userID }

func (i Identity) domainID() string { return strings.ToLower(i.Domain) }

func (i Identity) admin() bool { return slices.Contains(i.Roles, "admin") }

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

// Token gives out a token of the first identity, scoped to its project.
func (f *Cinder) Token() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := f.keystone.identities[0]
	return f.issue(&token{owner: i, method: "password", projectID: i.ProjectID})
}

func (f *Cinder) issue(t *token) string {
	t.issued = time.Now()
	t.expires = t.issued.Add(time.Hour)
	id := "gAAAAA" + f.random(60)
	f.keystone.tokens[id] = t
	f.secrets = append(f.secrets, id)
	return id
}

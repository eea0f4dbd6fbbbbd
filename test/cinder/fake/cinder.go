package fake

import (
	"crypto/rand"
	"io"
	"slices"
	"sync"
	"testing"
	"time"
)

// Cinder is one fake Cinder, with its Keystone if it has one. Its methods may be called at any time, by anybody.
type Cinder struct {
	t        testing.TB
	chance   io.Reader // of ids and secrets
	url      string    // of the API, without the version
	identity string    // URL of Keystone, empty without one

	mu        sync.Mutex
	settings  settings
	volumes   []*volume // in the order of creation, as all below
	snapshots []*snapshot
	types     []Type
	messages  []message
	quotas    map[string]Quota
	keystone  *keystone
	calls     Calls
	faults    []*Fault
	failures  []Failure
	secrets   []string
}

// New starts a fake that ends with the test: without options one as a standalone Cinder of today with one iSCSI backend
// and no authentication.
func New(t testing.TB, options ...Option) *Cinder {
	f := prepare(t, rand.Reader, options)
	f.url = serve(t, f.serveCinder)
	if f.keystone != nil {
		f.identity = serve(t, f.serveKeystone)
	}
	return f
}

func prepare(t testing.TB, chance io.Reader, options []Option) *Cinder {
	f := &Cinder{t: t, chance: chance, quotas: map[string]Quota{}}
	f.settings = settings{pace: 60 * time.Millisecond, connection: ISCSI(), zones: []string{"nova"}}
	f.addType(Type{Name: defaultType, Description: "Default Volume Type"})
	for _, option := range options {
		option(f)
	}
	return f
}

// Endpoint is the API's URL without a project: what a standalone user configures today, ".../v3".
func (f *Cinder) Endpoint() string { return f.url + "/v3" }

// AuthURL is Keystone's URL, ".../v3".
func (f *Cinder) AuthURL() string { return f.identity + "/v3" }

// locked changes the fake while it serves no call.
func (f *Cinder) locked(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Secrets lists all that must not show up in any output: passwords and secrets of the identities, tokens, CHAP secrets.
func (f *Cinder) Secrets() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.secrets)
}

const timeFormat = "2006-01-02T15:04:05.000000"

func (f *Cinder) now() string { return time.Now().UTC().Format(timeFormat) }

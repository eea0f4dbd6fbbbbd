package fake

import (
	"cmp"
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

	mu          sync.Mutex
	settings    settings
	volumes     []*volume // in the order of creation, as all below
	attachments []*attachment
	types       []*volumeType
	messages    []message
	quotas      map[string]Quota
	keystone    *keystone
	calls       Calls
	faults      []*Armed
	secrets     []string
	failCreate  []string // texts for the next volumes created, see FailCreate
	failDelete  int
	failExtend  int
	fullExtend  int
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
	f := &Cinder{t: t, chance: chance, settings: defaults(), quotas: map[string]Quota{}}
	f.addType(Type{Name: defaultType, Description: "Default Volume Type"})
	for _, option := range options {
		option(f)
	}
	return f
}

// URL is the root of the API, "http://127.0.0.1:PORT", without the version.
func (f *Cinder) URL() string { return f.url }

// Endpoint is the API's URL without a project: what a standalone user configures today, ".../v3".
func (f *Cinder) Endpoint() string { return f.url + "/v3" }

// AuthURL is Keystone's URL, ".../v3". It fails the test where there is no Keystone.
func (f *Cinder) AuthURL() string {
	f.t.Helper()
	if f.identity == "" {
		f.t.Fatal("the fake has no Keystone: use fake.WithKeystone()")
	}
	return f.identity + "/v3"
}

// Settle ends all that is under way: what is being created, extended or deleted is so afterwards, however many reads or
// seconds WithPace asks for.
func (f *Cinder) Settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.settle(func(*transition) bool { return true })
}

// locked changes the fake while it serves no call.
func (f *Cinder) locked(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// FailCreate lets the next volume that Cinder accepts end in status "error"; text is what /messages then says of it.
// Without a text it is the scheduler's for a volume that no backend can take.
func (f *Cinder) FailCreate(text string) {
	f.locked(func() { f.failCreate = append(f.failCreate, cmp.Or(text, noValidHost)) })
}

// FailDelete lets the next volume whose deletion Cinder accepts end in status "error_deleting".
func (f *Cinder) FailDelete() { f.locked(func() { f.failDelete++ }) }

// FailExtend lets the next volume whose extension Cinder accepts end in status "error_extending", as when the driver fails.
func (f *Cinder) FailExtend() { f.locked(func() { f.failExtend++ }) }

// FullExtend lets the next volume whose extension Cinder accepts go back to its status and size, as when Cinder's scheduler
// finds no room for it.
func (f *Cinder) FullExtend() { f.locked(func() { f.fullExtend++ }) }

// Secrets lists all that must not show up in any output: passwords and secrets of the identities, tokens, CHAP secrets.
func (f *Cinder) Secrets() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.secrets)
}

const timeFormat = "2006-01-02T15:04:05.000000"

func (f *Cinder) now() string { return time.Now().UTC().Format(timeFormat) }

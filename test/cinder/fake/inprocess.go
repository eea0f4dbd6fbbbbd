package fake

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// NewInProcess is New without a server: requests come by Transport alone, so that it can live in a bubble of
// testing/synctest. IDs and secrets are those of the seed.
func NewInProcess(t testing.TB, seed uint64, options ...Option) *Cinder {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	f := prepare(t, rand.NewChaCha8(key), options)
	f.url = "http://cinder.example"
	if f.keystone != nil {
		f.identity = "http://keystone.example"
	}
	return f
}

// Transport takes requests for URL and AuthURL to the fake's own code.
func (f *Cinder) Transport() http.RoundTripper { return inProcess{f} }

type inProcess struct{ f *Cinder }

func (p inProcess) RoundTrip(r *http.Request) (response *http.Response, err error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	defer func() {
		// What ends a connection in a server ends the call here.
		if why := recover(); why == http.ErrAbortHandler {
			response, err = nil, io.ErrUnexpectedEOF
			if r.Context().Err() != nil {
				err = r.Context().Err()
			}
		} else if why != nil {
			panic(why)
		}
	}()
	received := r.Clone(r.Context())
	received.Host = r.URL.Host
	if received.Body == nil {
		received.Body = http.NoBody
	}
	serve := p.f.serveCinder
	if p.f.identity != "" && strings.HasSuffix(p.f.identity, "//"+r.URL.Host) {
		serve = p.f.serveKeystone
	}
	w := httptest.NewRecorder()
	serve(w, received)
	response = w.Result()
	response.Request = r
	return response, nil
}

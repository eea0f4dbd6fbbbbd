package fake

import (
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
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
	f.url, f.identity = "http://cinder.example", "http://keystone.example"
	return f
}

// Transport takes requests for URL and AuthURL to the fake's own code.
func (f *Cinder) Transport() http.RoundTripper {
	return InProcess{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if "http://"+r.Host == f.identity {
			f.serveKeystone(w, r)
			return
		}
		f.serveCinder(w, r)
	})}
}

// InProcess is the way to a server in the test's process.
type InProcess struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (p InProcess) RoundTrip(r *http.Request) (response *http.Response, err error) {
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
	defer received.Body.Close()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, received)
	response = w.Result()
	response.Request = r
	return response, nil
}

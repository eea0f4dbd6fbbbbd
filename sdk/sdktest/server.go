package sdktest

import (
	"slices"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
)

// Token is the only one that a Server believes, until its SetToken.
const Token = "token-of-the-pod"

// Fault is how a Server answers one request instead of well.
type Fault = apiserver.Fault

// Server is an API server with the semantics that matter to CreateVolume. It is safe for concurrent use.
type Server struct {
	URL string
	// CA is the certificate of the server, in PEM.
	CA []byte

	api   *apiserver.Server
	token string
}

// NewServer starts a server that ends with the test. faults are used up, one a request, before it works well.
func NewServer(t testing.TB, faults ...Fault) *Server {
	t.Helper()
	s := &Server{api: apiserver.New(), token: Token}
	s.api.Admit(Token, apiserver.AnyVolume)
	faults = slices.Clone(faults)
	s.api.SetFault(func(n int, _ string) Fault {
		if n > len(faults) {
			return Fault{}
		}
		return faults[n-1]
	})
	listener := apiserver.Listen(s.api)
	t.Cleanup(listener.Close)
	s.URL, s.CA = listener.URL, listener.CA
	return s
}

// Volume is the body that created the volume, nil if there is none.
func (s *Server) Volume(name string) []byte { return s.api.Sent(name) }

// Tries counts the requests so far.
func (s *Server) Tries() int { return len(s.api.Calls()) }

// SetToken changes the token that is believed. It is not for concurrent use.
func (s *Server) SetToken(token string) {
	s.api.Revoke(s.token)
	s.token = token
	s.api.Admit(token, apiserver.AnyVolume)
}

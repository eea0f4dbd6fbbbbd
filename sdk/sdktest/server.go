package sdktest

import (
	"slices"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
)

// Token is the only token that a Server accepts, until SetToken is called.
const Token = "token-of-the-pod"

// Fault changes the outcome of a request to a Server.
type Fault = apiserver.Fault

// Server is a fake API server for CreateVolume. It is safe for concurrent use.
type Server struct {
	URL string
	// CA is the certificate of the server, in PEM.
	CA []byte

	api   *apiserver.Server
	token string
}

// NewServer starts a server that ends with the test. Each of faults is for one request. Later requests have none.
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

// Tries is the number of requests so far.
func (s *Server) Tries() int { return len(s.api.Calls()) }

// SetToken changes the token that the server accepts. It is not safe for concurrent use.
func (s *Server) SetToken(token string) {
	s.api.Revoke(s.token)
	s.token = token
	s.api.Admit(token, apiserver.AnyVolume)
}

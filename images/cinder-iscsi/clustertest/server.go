package clustertest

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
)

// Hub is where all the servers of a program are reached, each by its token, so that tests can run side by side although
// the address is in the environment.
type Hub struct {
	// URL goes into FLEX_KUBE_API.
	URL string
	// CA is the certificate, in PEM.
	CA []byte

	mutex   sync.Mutex
	servers map[string]*Server
}

// NewHub starts to listen, and does so until the program ends.
func NewHub() *Hub {
	h := &Hub{servers: map[string]*Server{}}
	listener := apiserver.Listen(h)
	h.URL, h.CA = listener.URL, listener.CA
	return h
}

// ServeHTTP passes a request on to the server whose token it has.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mutex.Lock()
	s := h.servers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	h.mutex.Unlock()
	if s == nil {
		apiserver.New().ServeHTTP(w, r) // which believes nobody
		return
	}
	s.ServeHTTP(w, r)
}

// Server is safe for concurrent use.
type Server struct {
	*apiserver.Server
	// Token is what the pods of this server show.
	Token string
	hub   *Hub
}

// Fault is what becomes of a call beside its answer.
type Fault = apiserver.Fault

// NewServer makes a server that ends with the test.
func (h *Hub) NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{apiserver.New("create secrets", "update secrets", "delete secrets", "list nodes"), rand.Text(), h}
	s.Admit(s.Token, apiserver.AnyVolume)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.servers[s.Token] = s
	t.Cleanup(func() {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		delete(h.servers, s.Token)
	})
	return s
}

// NewPod is sdktest's, with the identity for this server.
func (s *Server) NewPod(t testing.TB, request contract.Request, volume *corev1.PersistentVolume) sdktest.Pod {
	t.Helper()
	pod := sdktest.NewPod(t, request, volume, &sdktest.Server{URL: s.hub.URL, CA: s.hub.CA})
	if err := os.WriteFile(filepath.Join(pod.Root, contract.TokenFile), []byte(s.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	return pod
}

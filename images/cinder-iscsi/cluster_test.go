package main

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

// clusters are API servers with the rights that rbac.yaml grants. All are reached at one address, each by its token, so that tests
// can run side by side although the address is in the environment.
type clusters struct {
	// URL goes into FLEX_KUBE_API.
	URL string
	// CA is the certificate, in PEM.
	CA []byte

	mutex   sync.Mutex
	servers map[string]*testCluster
}

// newClusters starts to listen, and does so until the program ends.
func newClusters() *clusters {
	h := &clusters{servers: map[string]*testCluster{}}
	listener := apiserver.Listen(h)
	h.URL, h.CA = listener.URL, listener.CA
	return h
}

// ServeHTTP passes a request on to the server whose token it has.
func (h *clusters) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mutex.Lock()
	s := h.servers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	h.mutex.Unlock()
	if s == nil {
		apiserver.New().ServeHTTP(w, r) // which believes nobody
		return
	}
	s.ServeHTTP(w, r)
}

// testCluster is safe for concurrent use.
type testCluster struct {
	*apiserver.Server
	// Token is what the pods of this server show.
	Token string
	hub   *clusters
}

// newCluster makes a server that ends with the test.
func (h *clusters) newCluster(t testing.TB) *testCluster {
	t.Helper()
	s := &testCluster{apiserver.New("create secrets", "update secrets", "delete secrets", "list nodes"), rand.Text(), h}
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

// newPod is sdktest's, with the identity for this server.
func (s *testCluster) newPod(t testing.TB, request contract.Request, volume *corev1.PersistentVolume) sdktest.Pod {
	t.Helper()
	pod := sdktest.NewPod(t, request, volume, &sdktest.Server{URL: s.hub.URL, CA: s.hub.CA})
	if err := os.WriteFile(filepath.Join(pod.Root, contract.TokenFile), []byte(s.Token), 0o600); err != nil {
		t.Fatal(err)
	}
	return pod
}

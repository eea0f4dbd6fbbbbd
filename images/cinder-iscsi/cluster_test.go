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

// clusters are API servers with the rights that rbac.yaml grants, by the token of their pods. All are reached at one address, so
// that tests can run side by side although the address is in the environment, where TestMain puts it.
var (
	clusters sync.Map
	listener = apiserver.Listen(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server, found := clusters.Load(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if !found {
			server = apiserver.New() // which believes nobody
		}
		server.(*apiserver.Server).ServeHTTP(w, r)
	}))
)

// testCluster is safe for concurrent use. Its pods show the token.
type testCluster struct {
	*apiserver.Server
	token string
}

// newCluster makes a server that ends with the test.
func newCluster(t testing.TB) *testCluster {
	s := &testCluster{apiserver.New("create secrets", "update secrets", "delete secrets", "list nodes"), rand.Text()}
	s.Admit(s.token, apiserver.AnyVolume)
	clusters.Store(s.token, s.Server)
	t.Cleanup(func() { clusters.Delete(s.token) })
	return s
}

// newPod is sdktest's, with the identity for this server.
func (s *testCluster) newPod(t testing.TB, request contract.Request, volume *corev1.PersistentVolume) sdktest.Pod {
	t.Helper()
	pod := sdktest.NewPod(t, request, volume, &sdktest.Server{URL: listener.URL, CA: listener.CA})
	if err := os.WriteFile(filepath.Join(pod.Root, contract.TokenFile), []byte(s.token), 0o600); err != nil {
		t.Fatal(err)
	}
	return pod
}

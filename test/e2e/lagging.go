//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// lagging is a dispatcher of its own, a process of this machine beside those of the cluster and with their rights. Its
// watches can be held back, so that its caches show what was; what it asks is answered at once, and counted.
type lagging struct {
	s *scope
	// stop ends it, and returns when it has ended whatever it had begun.
	stop func()

	mu    sync.Mutex
	gates map[string]chan struct{} // by resource; closed where watches of it pass
	asked map[string]int           // "METHOD path"
	log   bytes.Buffer
}

// lagging starts one, which stops when the test ends.
func (s *scope) lagging() *lagging {
	s.Helper()
	l := &lagging{s: s, gates: map[string]chan struct{}{}, asked: map[string]int{}}
	way := httptest.NewServer(l.proxy())
	s.Cleanup(way.Close)
	file := filepath.Join(s.TempDir(), "kubeconfig")
	s.ok(os.WriteFile(file, fmt.Appendf(nil, "{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: %q}}], contexts: [{name: c, context: {cluster: c}}]}", way.URL), 0o600))
	cmd := exec.Command(programs+"/flex-provisioner", "--kubeconfig", file, "--leader-elect=false", "--http-address=127.0.0.1:0", "--pod-kube-api=https://10.96.0.1:443")
	cmd.Stdout, cmd.Stderr = l, l
	s.ok(cmd.Start())
	l.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		err := cmd.Wait()
		l.catchUp() // the proxy's watches end; earlier, the dispatcher would act on what it learns of
		if err != nil || s.Failed() {
			s.Errorf("the dispatcher with old caches ended with %v, its log:\n%s", err, l.said())
		}
	})
	s.Cleanup(l.stop)
	s.wait(patient, "a dispatcher of this machine", func() string {
		if said := l.said(); !strings.Contains(said, "Dispatching") {
			return said
		}
		return ""
	})
	return l
}

// proxy passes requests on to the API server, as the dispatcher's ServiceAccount.
func (l *lagging) proxy() http.Handler {
	l.s.Helper()
	token, err := shared.admin.CoreV1().ServiceAccounts(contract.SystemNamespace).CreateToken(l.s.Context(), "dispatcher", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	l.s.ok(err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig())
	l.s.ok(err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	l.s.ok(err)
	server, err := url.Parse(config.Host)
	l.s.ok(err)
	return &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header.Set("Authorization", "Bearer "+token.Status.Token)
			l.count(r.In)
		},
		ModifyResponse: func(response *http.Response) error {
			if request := response.Request; request.URL.Query().Get("watch") != "" {
				response.Body = &heldBack{ReadCloser: response.Body, pass: func() { <-l.gate(path.Base(request.URL.Path)) }}
			}
			return nil
		},
	}
}

// heldBack is a watch that may tell late what it was told.
type heldBack struct {
	io.ReadCloser
	pass func()
}

func (h *heldBack) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	h.pass()
	return n, err
}

func (l *lagging) count(request *http.Request) {
	if request.URL.Query().Has("dryRun") {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[request.Method+" "+request.URL.Path]++
}

// times is how often it asked for that.
func (l *lagging) times(method, path string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked[method+" "+path]
}

func (l *lagging) gate(resource string) chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gates[resource] == nil {
		l.gates[resource] = make(chan struct{})
		close(l.gates[resource])
	}
	return l.gates[resource]
}

// hold holds back what watches of these resources tell from now on, and begins to count anew.
func (l *lagging) hold(resources ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.asked)
	for _, resource := range resources {
		l.gates[resource] = make(chan struct{})
	}
}

// release lets the watches of a resource go on.
func (l *lagging) release(resource string) {
	gate := l.gate(resource)
	select {
	case <-gate: // it is open
	default:
		close(gate)
	}
}

// catchUp lets all watches go on.
func (l *lagging) catchUp() {
	l.mu.Lock()
	resources := slices.Collect(maps.Keys(l.gates))
	l.mu.Unlock()
	for _, resource := range resources {
		l.release(resource)
	}
}

// looks tells it of the ConfigMaps alone, waits until it asks for the claim, and stops it.
func (l *lagging) looks(claim string) {
	l.s.Helper()
	l.release("configmaps")
	l.s.wait(patient, "it looks at the claim", func() string {
		if l.times("GET", claim) == 0 {
			return "it has not asked for it"
		}
		return ""
	})
	l.stop() // what it has begun ends before it does
}

// Write takes the process's log.
func (l *lagging) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Write(p)
}

func (l *lagging) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.String()
}

package apiserver

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// CreateVolume is the only right that every provisioner pod has.
const CreateVolume = "create persistentvolumes"

// AnyVolume is the volume of tokens that are not bound to one.
const AnyVolume = "*"

// Fault changes the outcome of a call. At most one of Code, Before and After is set.
type Fault struct {
	// Code is the HTTP status of an error. With a Reason the body is a Status object, without one it is Message as plain text, as the
	// API server's 429 is. RetryAfter is in seconds.
	Code       int
	Reason     metav1.StatusReason
	Message    string
	RetryAfter int
	// Before closes the connection before the call has an effect, After closes it after the effect.
	Before, After bool
	// Do is called before the effect or, with After, after it.
	Do func()
}

// Server is safe for concurrent use. It serves HTTP; Listen gives it an address.
type Server struct {
	mutex   sync.Mutex
	granted map[string]bool
	tokens  map[string]string
	volumes map[string]volume
	secrets map[string]*corev1.Secret
	nodes   []corev1.Node
	version apiversion.Info
	calls   []string
	fault   func(n int, call string) Fault
}

// What a client may make the server keep. Kubernetes' own limit on a request is 3 MiB.
const (
	maxBody    = 3 << 20
	maxCalls   = 100_000
	maxCalled  = 256
	maxSecrets = 100
)

// volume is an object and the body of the request that created it.
type volume struct {
	object *corev1.PersistentVolume
	sent   []byte
}

// New makes a server whose pods have CreateVolume and these rights, such as "get secrets". A pod's rights to PersistentVolumes are for the
// volume that its token is bound to.
func New(rights ...string) *Server {
	s := &Server{granted: map[string]bool{CreateVolume: true}, tokens: map[string]string{},
		volumes: map[string]volume{}, secrets: map[string]*corev1.Secret{},
		version: apiversion.Info{Major: "1", Minor: "30"}}
	for _, right := range rights {
		s.granted[right] = true
	}
	return s
}

// Admit accepts a token, and binds it to the PersistentVolume of this name: AnyVolume for all, empty for none.
func (s *Server) Admit(token, volume string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.tokens[token] = volume
}

// SetVersion changes the version that the server says it has, to all who ask. It is 1.30 at first.
func (s *Server) SetVersion(major, minor string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.version = apiversion.Info{Major: major, Minor: minor}
}

// Revoke no longer accepts a token.
func (s *Server) Revoke(token string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.tokens, token)
}

// SetFault makes f return the fault of each call from now on. n counts the calls from 1, and call is such as "POST secrets". Nil removes f.
func (s *Server) SetFault(f func(n int, call string) Fault) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fault, s.calls = f, nil
}

// Calls returns the calls since the last SetFault.
func (s *Server) Calls() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.calls)
}

// ServeHTTP serves one call at a time.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c := parse(r)
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	called := r.Method + " " + c.resource
	called = called[:min(len(called), maxCalled)]
	if len(s.calls) < maxCalls {
		s.calls = append(s.calls, called)
	}
	var fault Fault
	if s.fault != nil {
		fault = s.fault(len(s.calls), called)
	}
	if fault.Do != nil && !fault.After {
		fault.Do()
	}
	switch {
	case fault.Before:
		panic(http.ErrAbortHandler)
	case fault.Code != 0:
		fault.write(w)
		return
	}
	answer := httptest.NewRecorder()
	s.answer(answer, r, c)
	if fault.After {
		if fault.Do != nil {
			fault.Do()
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

// call is the verb, resource and name of a request.
type call struct{ verb, resource, name string }

func (c call) right() string { return c.verb + " " + c.resource }

// parse parses the paths of the API. For Secrets of other namespaces it returns a resource to which nobody has a right.
func parse(r *http.Request) call {
	if r.URL.Path == "/version" {
		return call{"get", "version", ""}
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/")
	path = strings.TrimPrefix(path, "namespaces/"+contract.ProvisionersNamespace+"/")
	resource, name, _ := strings.Cut(path, "/")
	verb := map[string]string{http.MethodPost: "create", http.MethodGet: "get", http.MethodDelete: "delete",
		http.MethodPatch: "patch", http.MethodPut: "update"}[r.Method]
	if verb == "get" && name == "" {
		verb = "list"
	}
	return call{verb, resource, name}
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, c call) {
	bound, known := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	switch {
	case !known && c.resource != "version":
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case !s.granted[c.right()] && c.resource != "version":
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "cannot "+r.Method+" "+r.URL.Path+
			": the pod has no right to "+c.right())
	case c.resource == "version":
		write(w, http.StatusOK, s.version)
	case c.resource == "persistentvolumes":
		s.answerVolume(w, r, c, bound)
	case c.resource == "secrets":
		s.answerSecret(w, r, c)
	case c.resource == "nodes":
		s.answerNodes(w, r, c)
	default:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
}

func (f Fault) write(w http.ResponseWriter) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	if f.Reason == "" {
		http.Error(w, f.Message, f.Code)
		return
	}
	fail(w, f.Code, f.Reason, f.Message)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func succeed(w http.ResponseWriter) {
	write(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

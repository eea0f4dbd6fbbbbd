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

	"github.com/flex-provisioner/flex-provisioner/contract"
)

// CreateVolume is the only right that every provisioner pod has.
const CreateVolume = "create persistentvolumes"

// AnyVolume is for tokens that are bound to no volume.
const AnyVolume = "*"

// Fault is what becomes of a call beside its answer. Set one of Code, Before and After.
type Fault struct {
	// Code is the HTTP status of an error. Reason and Message make it a Status object, without a reason it is plain text,
	// as the API server's 429 is. RetryAfter is in seconds.
	Code       int
	Reason     metav1.StatusReason
	Message    string
	RetryAfter int
	// Before closes the connection before the call has an effect, After once it had.
	Before, After bool
	// Do is called first or, with After, after the effect.
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
	calls   []string
	fault   func(n int, call string) Fault
}

// volume is an object and what created it.
type volume struct {
	object *corev1.PersistentVolume
	sent   []byte
}

// New makes a server whose pods have CreateVolume and these rights, such as "get secrets". Of PersistentVolumes nobody has
// more rights than to the one that its token is bound to.
func New(rights ...string) *Server {
	s := &Server{granted: map[string]bool{CreateVolume: true}, tokens: map[string]string{},
		volumes: map[string]volume{}, secrets: map[string]*corev1.Secret{}}
	for _, right := range rights {
		s.granted[right] = true
	}
	return s
}

// Admit believes a token, which may touch the PersistentVolume of this name: AnyVolume for all, empty for none.
func (s *Server) Admit(token, volume string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.tokens[token] = volume
}

// Revoke believes a token no more.
func (s *Server) Revoke(token string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.tokens, token)
}

// SetFault lets f decide what becomes of the n-th call from now on, counted from 1, which it knows as "POST secrets". Nil
// ends that.
func (s *Server) SetFault(f func(n int, call string) Fault) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fault, s.calls = f, nil
}

// Calls are those since the last SetFault.
func (s *Server) Calls() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.calls)
}

// ServeHTTP answers one call, and one at a time.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	c := parse(r)
	s.calls = append(s.calls, r.Method+" "+c.resource)
	var fault Fault
	if s.fault != nil {
		fault = s.fault(len(s.calls), r.Method+" "+c.resource)
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

// call is what a request asks for.
type call struct{ verb, resource, name string }

func (c call) right() string { return c.verb + " " + c.resource }

// parse knows paths as the API server has them; Secrets of other namespaces have a resource that nobody has a right to.
func parse(r *http.Request) call {
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
	case !known:
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
	case !s.granted[c.right()]:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "cannot "+r.Method+" "+r.URL.Path+
			": the pod has no right to "+c.right())
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

// Package sdktest tries a provisioner without a cluster: an API server that takes PersistentVolumes, and the files of a
// pod in a directory.
package sdktest

import (
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Token is the only one that a Server believes, until its SetToken.
const Token = "token-of-the-pod"

// Fault is how a Server answers one request instead of well. Set one of Code, Before and After.
type Fault struct {
	// Code is the HTTP status of an error. Reason and Message make it a Status object, without them it is plain text, as
	// the API server's 429 is. RetryAfter is in seconds.
	Code       int
	Reason     metav1.StatusReason
	Message    string
	RetryAfter int
	// Before closes the connection before the write, After closes it once the write took effect.
	Before, After bool
}

// Server is an API server with the semantics that matter to CreateVolume. It is safe for concurrent use.
type Server struct {
	URL string
	// CA is the certificate of the server, in PEM.
	CA []byte

	mutex   sync.Mutex
	token   string
	faults  []Fault
	volumes map[string][]byte
	tries   int
}

// NewServer starts a server that ends with the test. faults are used up, one a request, before it works well.
func NewServer(t testing.TB, faults ...Fault) *Server {
	t.Helper()
	s := &Server{token: Token, faults: slices.Clone(faults), volumes: map[string][]byte{}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that end badly are what is tested
	server.StartTLS()
	t.Cleanup(server.Close)
	s.URL, s.CA = server.URL, encodeCertificate(server.Certificate())
	return s
}

// Volume is the body that created the volume, nil if there is none.
func (s *Server) Volume(name string) []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.volumes[name]
}

// Tries counts the requests so far.
func (s *Server) Tries() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.tries
}

// SetToken changes the token that is believed.
func (s *Server) SetToken(token string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.token = token
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.tries++
	var fault Fault
	if len(s.faults) > 0 {
		fault, s.faults = s.faults[0], s.faults[1:]
	}
	switch {
	case fault.Before:
		panic(http.ErrAbortHandler)
	case fault.Code != 0:
		fault.write(w)
	case r.Header.Get("Authorization") != "Bearer "+s.token:
		Fault{Code: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"}.write(w)
	case r.Method != http.MethodPost || r.URL.Path != "/api/v1/persistentvolumes":
		// The pod's role has no other right.
		Fault{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
			Message: "cannot " + r.Method + " " + r.URL.Path}.write(w)
	default:
		s.create(w, r, fault.After)
	}
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, loseAnswer bool) {
	body, err := io.ReadAll(r.Body)
	var object struct {
		Metadata metav1.ObjectMeta
		Spec     map[string]any
	}
	if err == nil {
		err = json.Unmarshal(body, &object)
	}
	name := object.Metadata.Name
	switch {
	case err != nil:
		Fault{Code: http.StatusBadRequest, Reason: metav1.StatusReasonBadRequest, Message: err.Error()}.write(w)
	// The real one looks at the resourceVersion before the name, so that this is no AlreadyExists.
	case object.Metadata.ResourceVersion != "":
		Fault{Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
			Message: "resourceVersion should not be set on objects to be created"}.write(w)
	case object.Spec["local"] != nil && object.Spec["nodeAffinity"] == nil:
		Fault{Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
			Message: `PersistentVolume "` + name + `" is invalid: spec.nodeAffinity: Required value: Local volume requires node affinity`}.write(w)
	case s.volumes[name] != nil:
		Fault{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
			Message: `persistentvolumes "` + name + `" already exists`}.write(w)
	default:
		s.volumes[name] = body
		if loseAnswer {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
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
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(f.Code), Reason: f.Reason, Message: f.Message,
	})
}

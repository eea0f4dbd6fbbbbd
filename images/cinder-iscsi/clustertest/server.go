// Package clustertest is an API server with what the Cinder provisioner uses of Kubernetes, and no more rights than
// rbac.yaml grants: PersistentVolumes to create, Secrets of one namespace to create, update and delete, Nodes to
// list. Of the admission policies it has the one for Secrets, as far as it protects those of others.
package clustertest

import (
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/contract"
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
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.Config.SetKeepAlivesEnabled(false) // Go's client repeats requests on connections that it had used before
	server.StartTLS()
	h.URL = server.URL
	h.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return h
}

// ServeHTTP passes a request on to the server whose token it has.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mutex.Lock()
	s := h.servers[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	h.mutex.Unlock()
	if s == nil {
		fail(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	s.serve(w, r)
}

// Server is safe for concurrent use.
type Server struct {
	// Token is what the pods of this server show.
	Token string
	hub   *Hub

	mutex   sync.Mutex
	volumes map[string]*corev1.PersistentVolume
	secrets map[string]*corev1.Secret
	nodes   []corev1.Node
	calls   []string
	fault   func(n int, call string) Fault
}

// Fault is what becomes of a call beside its answer.
type Fault struct {
	// Before and After close the connection, before the call has an effect and after it.
	Before, After bool
	// Code answers with an error.
	Code int
	// Do is called first or, with After, after the effect.
	Do func()
}

// NewServer makes a server that ends with the test.
func (h *Hub) NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{Token: rand.Text(), hub: h, volumes: map[string]*corev1.PersistentVolume{}, secrets: map[string]*corev1.Secret{}}
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

// SetFault lets f decide what becomes of the n-th call from now on, counted from 1. Nil ends that.
func (s *Server) SetFault(f func(n int, call string) Fault) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.fault, s.calls = f, nil
}

// Calls are those since the last SetFault: "POST secrets".
func (s *Server) Calls() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.calls)
}

// Volume is nil where there is none.
func (s *Server) Volume(name string) *corev1.PersistentVolume {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.volumes[name].DeepCopy()
}

// Secrets are all of them by name.
func (s *Server) Secrets() map[string]*corev1.Secret {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := map[string]*corev1.Secret{}
	for name, secret := range s.secrets {
		all[name] = secret.DeepCopy()
	}
	return all
}

// AddSecret puts one there.
func (s *Server) AddSecret(secret corev1.Secret) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secrets[secret.Name] = &secret
}

// AddNode puts a node there that uses these volumes.
func (s *Server) AddNode(name string, inUse ...corev1.UniqueVolumeName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.nodes = append(s.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{VolumesInUse: inUse}})
}

// SetNodes replaces them.
func (s *Server) SetNodes(nodes ...corev1.Node) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.nodes = nodes
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	resource, name := route(r.URL.Path)
	call := r.Method + " " + resource
	s.calls = append(s.calls, call)
	var fault Fault
	if s.fault != nil {
		fault = s.fault(len(s.calls), call)
	}
	if fault.Do != nil && !fault.After {
		fault.Do()
	}
	switch {
	case fault.Before:
		panic(http.ErrAbortHandler)
	case fault.Code != 0:
		fail(w, fault.Code, "", "on a bad day")
		return
	}
	answer := httptest.NewRecorder()
	s.answer(answer, r, call, name)
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

func route(path string) (resource, name string) {
	path = strings.TrimPrefix(path, "/api/v1/")
	path = strings.TrimPrefix(path, "namespaces/"+contract.ProvisionersNamespace+"/")
	resource, name, _ = strings.Cut(path, "/")
	return resource, name
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, call, name string) {
	body, _ := io.ReadAll(r.Body)
	switch call {
	case "POST persistentvolumes":
		create(w, s.volumes, body, func(v *corev1.PersistentVolume) *metav1.ObjectMeta { return &v.ObjectMeta })
	case "POST secrets":
		create(w, s.secrets, body, func(v *corev1.Secret) *metav1.ObjectMeta { return &v.ObjectMeta })
	case "PUT secrets":
		s.updateSecret(w, body, name)
	case "DELETE secrets":
		s.deleteSecret(w, name)
	case "GET nodes":
		s.listNodes(w, r)
	default:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "cannot "+call)
	}
}

func (s *Server) updateSecret(w http.ResponseWriter, body []byte, name string) {
	if !s.ownSecret(w, name) {
		return
	}
	var secret corev1.Secret
	if err := json.Unmarshal(body, &secret); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	secret.UID = s.secrets[name].UID
	s.secrets[name] = &secret
	write(w, http.StatusOK, secret)
}

func (s *Server) deleteSecret(w http.ResponseWriter, name string) {
	if !s.ownSecret(w, name) {
		return
	}
	delete(s.secrets, name)
	write(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

// ownSecret answers like the API server and the policy where there is no Secret, or one that is not the volume's.
func (s *Server) ownSecret(w http.ResponseWriter, name string) bool {
	secret := s.secrets[name]
	switch {
	case secret == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, "secrets \""+name+"\" not found")
	case "pvc-"+secret.Labels[contract.LabelClaimUID] != name:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "secrets \""+name+"\" is forbidden: the Secret is not one of this claim")
	default:
		return true
	}
	return false
}

// listNodes continues at the number of the next node.
func (s *Server) listNodes(w http.ResponseWriter, r *http.Request) {
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: s.nodes[from:]}
	if name, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); one {
		list.Items = slices.DeleteFunc(slices.Clone(s.nodes), func(node corev1.Node) bool { return node.Name != name })
	}
	if limit > 0 && len(list.Items) > limit {
		list.Items, list.Continue = list.Items[:limit], strconv.Itoa(from+limit)
	}
	write(w, http.StatusOK, list)
}

func create[T any](w http.ResponseWriter, all map[string]*T, body []byte, meta func(*T) *metav1.ObjectMeta) {
	object := new(T)
	if err := json.Unmarshal(body, object); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	m := meta(object)
	if all[m.Name] != nil {
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, m.Name+" already exists")
		return
	}
	m.UID = types.UID("uid-of-" + m.Name)
	all[m.Name] = object
	write(w, http.StatusCreated, object)
}

func fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message,
	})
}

func write(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object)
}

package apiserver

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Secrets returns all Secrets by name.
func (s *Server) Secrets() map[string]*corev1.Secret {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := map[string]*corev1.Secret{}
	for name, secret := range s.secrets {
		all[name] = secret.DeepCopy()
	}
	return all
}

// AddSecret adds a Secret.
func (s *Server) AddSecret(secret corev1.Secret) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.secrets[secret.Name] = &secret
}

// AddNode adds a node that uses these volumes.
func (s *Server) AddNode(name string, inUse ...corev1.UniqueVolumeName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.nodes = append(s.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{VolumesInUse: inUse}})
}

// SetNodes replaces all nodes.
func (s *Server) SetNodes(nodes ...corev1.Node) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.nodes = nodes
}

func (s *Server) answerSecret(w http.ResponseWriter, r *http.Request, c call) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	secret := s.secrets[c.name]
	switch {
	case c.verb == "create":
		s.createSecret(w, body)
	case c.verb == "list":
		list := corev1.SecretList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "SecretList"}}
		for _, one := range s.secrets {
			list.Items = append(list.Items, *one)
		}
		write(w, http.StatusOK, list)
	case secret == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, `secrets "`+c.name+`" not found`)
	case c.verb == "get":
		write(w, http.StatusOK, secret)
	// This is the rule of the admission policy for Secrets.
	case "pvc-"+secret.Labels[contract.LabelClaimUID] != c.name:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, `secrets "`+c.name+`" is forbidden: the Secret is not one of this claim`)
	case c.verb == "update":
		s.updateSecret(w, body, secret)
	case c.verb == "delete":
		s.deleteSecret(w, body, secret)
	default:
		fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, c.right()+" is not known here")
	}
}

func (s *Server) createSecret(w http.ResponseWriter, body []byte) {
	secret := &corev1.Secret{}
	if err := json.Unmarshal(body, secret); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if s.secrets[secret.Name] != nil {
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, `secrets "`+secret.Name+`" already exists`)
		return
	}
	if len(s.secrets) >= maxSecrets {
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, `secrets "`+secret.Name+`" is forbidden: exceeded quota`)
		return
	}
	secret.UID = types.UID("uid-of-" + secret.Name)
	s.secrets[secret.Name] = secret
	write(w, http.StatusCreated, secret)
}

func (s *Server) updateSecret(w http.ResponseWriter, body []byte, old *corev1.Secret) {
	secret := &corev1.Secret{}
	if err := json.Unmarshal(body, secret); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	secret.UID = old.UID
	s.secrets[old.Name] = secret
	write(w, http.StatusOK, secret)
}

func (s *Server) deleteSecret(w http.ResponseWriter, body []byte, secret *corev1.Secret) {
	var options metav1.DeleteOptions
	_ = json.Unmarshal(body, &options) // the body may be empty
	if p := options.Preconditions; p != nil && p.UID != nil && *p.UID != secret.UID {
		fail(w, http.StatusConflict, metav1.StatusReasonConflict, "the UID in the precondition is another")
		return
	}
	delete(s.secrets, secret.Name)
	succeed(w)
}

// answerNodes continues a list at the number of the next node.
func (s *Server) answerNodes(w http.ResponseWriter, r *http.Request, c call) {
	for i := range s.nodes {
		if s.nodes[i].Name == c.name {
			write(w, http.StatusOK, s.nodes[i])
			return
		}
	}
	if c.verb != "list" {
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, `nodes "`+c.name+`" not found`)
		return
	}
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	list := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, Items: s.nodes[min(max(from, 0), len(s.nodes)):]}
	if name, one := strings.CutPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); one {
		list.Items = slices.DeleteFunc(slices.Clone(s.nodes), func(n corev1.Node) bool { return n.Name != name })
	}
	if limit > 0 && len(list.Items) > limit {
		list.Items, list.Continue = list.Items[:limit], strconv.Itoa(from+limit)
	}
	write(w, http.StatusOK, list)
}

package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	strict "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Volume returns the volume of a name, nil if there is none.
func (s *Server) Volume(name string) *corev1.PersistentVolume {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.volumes[name].object.DeepCopy()
}

// Sent returns the body that created the volume, nil if there is none.
func (s *Server) Sent(name string) []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Clone(s.volumes[name].sent)
}

// RemoveVolume removes a volume, as the dispatcher does once the storage is gone.
func (s *Server) RemoveVolume(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.volumes, name)
}

func (s *Server) answerVolume(w http.ResponseWriter, r *http.Request, c call, bound string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	if c.verb == "create" {
		s.createVolume(w, body, r.URL.Query().Get("fieldValidation"), bound)
		return
	}
	switch v := s.volumes[c.name]; {
	case bound != AnyVolume && c.name != bound:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "cannot "+c.verb+" persistentvolume "+c.name+": it is not the pod's own")
	case v.object == nil:
		fail(w, http.StatusNotFound, metav1.StatusReasonNotFound, `persistentvolumes "`+c.name+`" not found`)
	case c.verb == "get":
		write(w, http.StatusOK, v.object)
	case c.verb == "delete":
		delete(s.volumes, c.name)
		succeed(w)
	case c.verb == "patch":
		s.patchVolume(w, body, v)
	default:
		fail(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, c.right()+" is not known here")
	}
}

func (s *Server) createVolume(w http.ResponseWriter, body []byte, fieldValidation, bound string) {
	object := &corev1.PersistentVolume{}
	if err := decode(body, object, fieldValidation); err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest,
			`PersistentVolume in version "v1" cannot be handled as a PersistentVolume: `+err.Error())
		return
	}
	name := object.Name
	switch {
	case bound != AnyVolume && name != bound:
		fail(w, http.StatusForbidden, metav1.StatusReasonForbidden,
			`persistentvolumes "`+name+`" is forbidden: the pod may create `+allowed(bound))
	// The API server checks the resourceVersion before the name, so this error comes before AlreadyExists.
	case object.ResourceVersion != "":
		fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError, "resourceVersion should not be set on objects to be created")
	case invalid(object) != "":
		fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, `PersistentVolume "`+name+`" is invalid: `+invalid(object))
	case s.volumes[name].object != nil:
		fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists, `persistentvolumes "`+name+`" already exists`)
	default:
		object.UID, object.ResourceVersion = types.UID("uid-of-"+name), "1"
		s.volumes[name] = volume{object, body}
		write(w, http.StatusCreated, object)
	}
}

// decode ignores unknown fields, as the API server does, unless the client asks for strictness.
func decode(body []byte, object *corev1.PersistentVolume, fieldValidation string) error {
	text, err := yaml.YAMLToJSON(body) // YAML includes JSON
	if err != nil {
		return err
	}

	unknown, err := strict.UnmarshalStrict(text, object)
	if err == nil && len(unknown) > 0 && fieldValidation == metav1.FieldValidationStrict {
		err = fmt.Errorf("strict decoding error: %w", errors.Join(unknown...))
	}
	return err
}

func allowed(bound string) string {
	if bound == "" {
		return "none"
	}
	return "only " + bound
}

// invalid is the part of the API server's validation that provisioners may fail.
func invalid(v *corev1.PersistentVolume) string {
	size := v.Spec.Capacity[corev1.ResourceStorage]
	switch {
	case v.Name == "":
		return "metadata.name: Required value: name or generateName is required"
	case size.Sign() <= 0:
		return `spec.capacity[storage]: Invalid value: "` + size.String() + `": must be greater than zero`
	case len(v.Spec.AccessModes) == 0:
		return "spec.accessModes: Required value"
	case v.Spec.PersistentVolumeSource == corev1.PersistentVolumeSource{}:
		return "spec: Required value: must specify a volume type"
	case v.Spec.Local != nil && v.Spec.NodeAffinity == nil:
		return "spec.nodeAffinity: Required value: Local volume requires node affinity"
	}
	return ""
}

// patchVolume applies merge patches, and strategic ones that are also merge patches.
func (s *Server) patchVolume(w http.ResponseWriter, body []byte, v volume) {
	object := &corev1.PersistentVolume{}
	data, err := json.Marshal(v.object)
	if err == nil {
		data, err = jsonpatch.MergePatch(data, body)
	}
	if err == nil {
		err = json.Unmarshal(data, object)
	}
	if err != nil {
		fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
		return
	}
	s.volumes[object.Name] = volume{object, v.sent}
	write(w, http.StatusOK, object)
}

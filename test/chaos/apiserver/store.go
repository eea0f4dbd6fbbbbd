package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Server is the double. It is safe for concurrent use.
type Server struct {
	// Admit may refuse a create, as quota and admission policies do.
	Admit func(Object) error
	// Changed hears of every change, under the server's lock: it may not call the server.
	Changed func(resource string, before, after Object)
	// Calm, once closed, ends the delays of watches, those under way too. Nil where they are never ended.
	Calm <-chan struct{}

	mu      sync.Mutex
	version int64
	kinds   map[string]*kind
}

// New makes an empty server.
func New() *Server { return &Server{version: 100, kinds: kinds()} }

func key(namespace, name string) string { return namespace + "/" + name }

func (k *kind) group4errors() schema.GroupResource {
	return schema.GroupResource{Group: k.group, Resource: k.resource}
}

// Get is the object as it is, or nil.
func Get[T Object](s *Server, resource, namespace, name string) (object T, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.kinds[resource].objects[key(namespace, name)]
	if e == nil {
		return object, false
	}
	return e.object.(T), true
}

// List is all objects of a kind, by name.
func List[T Object](s *Server, resource string) []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[resource]
	var list []T
	for _, name := range slices.Sorted(maps.Keys(k.objects)) {
		list = append(list, k.objects[name].object.(T))
	}
	return list
}

// Create adds an object.
func (s *Server) Create(resource string, object Object) (Object, error) {
	k := s.kinds[resource]
	if s.Admit != nil {
		if err := s.Admit(object); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if object.GetResourceVersion() != "" {
		// The storage looks at this before it looks for the name.
		return nil, apierrors.NewInternalError(fmt.Errorf("resourceVersion should not be set on objects to be created"))
	}
	object = object.DeepCopyObject().(Object)
	at := key(object.GetNamespace(), object.GetName())
	if k.objects[at] != nil {
		return nil, apierrors.NewAlreadyExists(k.group4errors(), object.GetName())
	}
	// Each kind counts for itself: which event came first must not decide what the next claim is called.
	k.uids++
	object.SetUID(types.UID(fmt.Sprintf("%08x-%04x-4000-8000-%012x", k.uids, len(k.group)+len(k.resource), k.uids)))
	object.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	object.SetDeletionTimestamp(nil)
	if k.created != nil {
		k.created(object)
	}
	return s.put(k, nil, object).object, nil
}

// Mutate changes an object by a function that gets a copy, and returns whether there was one. With status it changes the
// status alone.
func (s *Server) Mutate(resource, namespace, name string, change func(Object)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[resource]
	e := k.objects[key(namespace, name)]
	if e == nil {
		return false
	}
	object := e.object.DeepCopyObject().(Object)
	change(object)
	s.replace(k, e, object)
	return true
}

// update is a PUT or the result of a patch. subresource is "" or "status".
func (s *Server) update(k *kind, object Object, subresource string) (Object, error) {
	e := k.objects[key(object.GetNamespace(), object.GetName())]
	if e == nil {
		return nil, apierrors.NewNotFound(k.group4errors(), object.GetName())
	}
	old := e.object
	if uid := object.GetUID(); uid != "" && uid != old.GetUID() {
		return nil, conflict(k, old.GetName(), fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", uid, old.GetUID()))
	}
	if v := object.GetResourceVersion(); v != "" && v != old.GetResourceVersion() {
		return nil, conflict(k, old.GetName(), "the object has been modified; please apply your changes to the latest version and try again")
	}
	object = object.DeepCopyObject().(Object)
	switch {
	case subresource == "status" && k.status != nil:
		changed := old.DeepCopyObject().(Object)
		k.status(changed, object)
		object = changed
	case k.status != nil:
		k.status(object, old)
	}
	if k.refuses != nil {
		if err := k.refuses(old, object); err != nil {
			return nil, Status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
		}
	}
	object.SetUID(old.GetUID())
	object.SetCreationTimestamp(old.GetCreationTimestamp())
	object.SetDeletionTimestamp(old.GetDeletionTimestamp())
	object.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	return s.replace(k, e, object), nil
}

// replace writes a new version, or removes an object that only waited for its last finalizer.
func (s *Server) replace(k *kind, e *entry, object Object) Object {
	object.SetResourceVersion(e.object.GetResourceVersion())
	grace := object.GetDeletionGracePeriodSeconds()
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 && (grace == nil || *grace == 0) {
		return s.remove(k, e)
	}
	if k.changed != nil {
		k.changed(e.object, object)
	}
	if bytes.Equal(k.encode(object), e.json) {
		return e.object // nothing changed, so nothing is written
	}
	return s.put(k, e, object).object
}

// Delete is a DELETE.
func (s *Server) Delete(resource, namespace, name string, options metav1.DeleteOptions) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kinds[resource]
	e := k.objects[key(namespace, name)]
	if e == nil {
		return nil, apierrors.NewNotFound(k.group4errors(), name)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != e.object.GetUID() {
			return nil, conflict(k, name, fmt.Sprintf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, e.object.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != e.object.GetResourceVersion() {
			return nil, conflict(k, name, "Precondition failed: ResourceVersion")
		}
	}
	grace := int64(0)
	if pod, ok := e.object.(*corev1.Pod); ok {
		grace = graceOf(pod, options.GracePeriodSeconds)
	}
	if grace == 0 && len(e.object.GetFinalizers()) == 0 {
		return s.remove(k, e), nil
	}
	before := e.object.GetDeletionGracePeriodSeconds()
	if e.object.GetDeletionTimestamp() != nil && (before == nil || *before <= grace) {
		return e.object, nil // a second deletion can only shorten the first
	}
	object := e.object.DeepCopyObject().(Object)
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second)).Rfc3339Copy()
	object.SetDeletionTimestamp(&at)
	object.SetDeletionGracePeriodSeconds(&grace)
	return s.put(k, e, object).object, nil
}

// graceOf is how long the pod gets: nothing where no kubelet has it or nothing of it runs.
func graceOf(pod *corev1.Pod, asked *int64) int64 {
	switch {
	case pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return 0
	case asked != nil:
		return *asked
	}
	return *pod.Spec.TerminationGracePeriodSeconds
}

func (s *Server) put(k *kind, before *entry, object Object) *entry {
	s.version++
	object.SetResourceVersion(strconv.FormatInt(s.version, 10))
	after := &entry{object: object, json: k.encode(object), nth: 1}
	if before != nil {
		after.nth = before.nth + 1
	}
	k.objects[key(object.GetNamespace(), object.GetName())] = after
	s.record(k, change{before: before, after: after})
	return after
}

func (s *Server) remove(k *kind, e *entry) Object {
	s.version++
	delete(k.objects, key(e.object.GetNamespace(), e.object.GetName()))
	last := e.object.DeepCopyObject().(Object)
	last.SetResourceVersion(strconv.FormatInt(s.version, 10))
	s.record(k, change{before: e, last: k.encode(last)})
	return last
}

func (s *Server) record(k *kind, c change) {
	c.version, c.at = s.version, time.Now().UnixNano()
	k.log = append(k.log, c)
	close(k.wake)
	k.wake = make(chan struct{})
	if s.Changed != nil {
		var before, after Object
		if c.before != nil {
			before = c.before.object
		}
		if c.after != nil {
			after = c.after.object
		}
		s.Changed(k.resource, before, after)
	}
}

// Compact makes watches and lists from older versions answer 410 Gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.kinds {
		k.floor = s.version
	}
}

func (k *kind) encode(object Object) []byte {
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{Group: k.group, Version: k.version, Kind: k.name})
	data, err := json.Marshal(object)
	if err != nil {
		panic(fmt.Sprintf("encode %s %s: %v", k.name, object.GetName(), err))
	}
	return data
}

func conflict(k *kind, name, why string) error {
	return apierrors.NewConflict(k.group4errors(), name, fmt.Errorf("%s", why))
}

// Status is an error as the server answers it.
func Status(code int, reason metav1.StatusReason, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message}}
}

// Unavailable is an answer of an API server that has no time.
func Unavailable() *apierrors.StatusError {
	return Status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the server is currently unable to handle the request")
}

package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

// Request is an HTTP request, understood.
type Request struct {
	Verb                                   string // get, list, watch, create, update, patch, delete
	Resource, Namespace, Name, Subresource string
	Group                                  string    // group and version whose kinds are asked for, and nothing else is
	AsOf                                   time.Time // zero for now: of when a list is that may be old
	version, match                         string
	initial                                bool
	timeout                                int64
	labels                                 labels.Selector
	fields                                 fields.Selector
	contentType                            string
	body                                   []byte
}

var verbs = map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"}

// Writes reports whether the request may change something.
func (r *Request) Writes() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// Read understands an HTTP request.
func Read(hr *http.Request) (*Request, error) {
	r := &Request{contentType: hr.Header.Get("Content-Type")}
	parts := strings.Split(strings.Trim(hr.URL.Path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		parts = parts[3:]
	case len(parts) == 3 && parts[0] == "apis":
		return &Request{Verb: "get", Group: parts[1] + "/" + parts[2]}, nil
	default:
		return nil, fmt.Errorf("path %s is unknown", hr.URL.Path)
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		r.Namespace, parts = parts[1], parts[2:]
	}
	r.Resource = parts[0]
	if len(parts) > 1 {
		r.Name = parts[1]
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	query := hr.URL.Query()
	switch {
	case hr.Method != http.MethodGet:
		r.Verb = verbs[hr.Method]
	case query.Get("watch") == "true" || query.Get("watch") == "1":
		r.Verb = "watch"
	case r.Name == "":
		r.Verb = "list"
	default:
		r.Verb = "get"
	}
	r.version, r.match, r.initial = query.Get("resourceVersion"), query.Get("resourceVersionMatch"), query.Get("sendInitialEvents") == "true"
	r.timeout, _ = strconv.ParseInt(query.Get("timeoutSeconds"), 10, 64)
	var err error
	if r.labels, err = labels.Parse(query.Get("labelSelector")); err != nil {
		return nil, err
	}
	if r.fields, err = fields.ParseSelector(query.Get("fieldSelector")); err != nil {
		return nil, err
	}
	if hr.Body != nil {
		defer hr.Body.Close()
		r.body, err = io.ReadAll(hr.Body)
	}
	return r, err
}

// Do answers every request but a watch.
func (s *Server) Do(r *Request) (code int, answer []byte) {
	if r.Group != "" {
		return s.discover(r.Group)
	}
	k := s.kinds[r.Resource]
	if k == nil {
		return failure(Status(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"))
	}
	object, err := s.do(k, r)
	switch {
	case err == nil && r.Subresource == "log":
		return http.StatusOK, []byte("the last line of the log\n")
	case err != nil:
		return failure(err)
	case r.Verb == "list":
		return http.StatusOK, s.list(k, r)
	case r.Verb == "create":
		return http.StatusCreated, k.encode(object.DeepCopyObject().(Object))
	}
	return http.StatusOK, k.encode(object.DeepCopyObject().(Object))
}

// discover answers which kinds a group and version has.
func (s *Server) discover(group string) (code int, answer []byte) {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: group}
	for _, resource := range slices.Sorted(maps.Keys(s.kinds)) {
		if k := s.kinds[resource]; k.apiVersion() == group {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: k.resource, Kind: k.name})
		}
	}
	if len(list.APIResources) == 0 {
		return failure(Status(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource"))
	}
	answer, _ = json.Marshal(list)
	return http.StatusOK, answer
}

func (s *Server) do(k *kind, r *Request) (Object, error) {
	switch r.Verb {
	case "list":
		return nil, s.tooOld(k, r)
	case "get":
		s.mu.Lock()
		defer s.mu.Unlock()
		if e := k.objects[key(r.Namespace, r.Name)]; e != nil {
			return e.object, nil
		}
		return nil, apierrors.NewNotFound(k.group4errors(), r.Name)
	case "create", "update":
		if r.Subresource == "binding" {
			return s.bind(k, r)
		}
		object := k.make()
		if err := json.Unmarshal(r.body, object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		object.SetNamespace(r.Namespace)
		if r.Verb == "create" {
			return s.Create(r.Resource, object)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.update(k, object, r.Subresource)
	case "patch":
		return s.patch(k, r)
	case "delete":
		var options metav1.DeleteOptions
		if len(r.body) > 0 {
			if err := json.Unmarshal(r.body, &options); err != nil {
				return nil, apierrors.NewBadRequest(err.Error())
			}
		}
		return s.Delete(r.Resource, r.Namespace, r.Name, options)
	}
	return nil, Status(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "no "+r.Verb)
}

// bind is what a scheduler asks for.
func (s *Server) bind(k *kind, r *Request) (Object, error) {
	var binding corev1.Binding
	if err := json.Unmarshal(r.body, &binding); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if !s.Mutate(k.resource, r.Namespace, r.Name, func(o Object) { o.(*corev1.Pod).Spec.NodeName = binding.Target.Name }) {
		return nil, apierrors.NewNotFound(k.group4errors(), r.Name)
	}
	return &metav1.PartialObjectMetadata{}, nil
}

func (s *Server) patch(k *kind, r *Request) (Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := k.objects[key(r.Namespace, r.Name)]
	if e == nil {
		return nil, apierrors.NewNotFound(k.group4errors(), r.Name)
	}
	var patched []byte
	var err error
	switch types.PatchType(r.contentType) {
	case types.JSONPatchType:
		patched, err = jsonPatch(e.json, r.body)
		if errors.Is(err, jsonpatch.ErrTestFailed) {
			return nil, Status(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
		}
	case types.MergePatchType:
		patched, err = mergePatch(e.json, r.body)
	case types.StrategicMergePatchType:
		patched, err = strategicpatch.StrategicMergePatch(e.json, r.body, k.make())
	default:
		return nil, Status(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "no patches of type "+r.contentType)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	object := k.make()
	if err := json.Unmarshal(patched, object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return s.update(k, object, r.Subresource)
}

// jsonPatch is RFC 6902.
func jsonPatch(document, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	return operations.Apply(document)
}

// mergePatch is RFC 7396.
func mergePatch(document, patch []byte) ([]byte, error) {
	var to, with map[string]any
	if err := json.Unmarshal(document, &to); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(patch, &with); err != nil {
		return nil, err
	}
	merge(to, with)
	return json.Marshal(to)
}

func merge(to, with map[string]any) {
	for name, value := range with {
		inner, isMap := value.(map[string]any)
		switch target, ok := to[name].(map[string]any); {
		case value == nil:
			delete(to, name)
		case isMap && ok:
			merge(target, inner)
		case isMap:
			target = map[string]any{}
			merge(target, inner)
			to[name] = target
		default:
			to[name] = value
		}
	}
}

// tooOld: only a list of exactly a version can have come too late; any other may be answered with what is there.
func (s *Server) tooOld(k *kind, r *Request) error {
	if r.match != "Exact" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, _ := strconv.ParseInt(r.version, 10, 64); v > 0 && v < k.floor {
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", v, k.floor))
	}
	return nil
}

// list answers from now, or from as long ago as the caller says.
func (s *Server) list(k *kind, r *Request) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out strings.Builder
	objects, version := k.objects, s.version
	if !r.AsOf.IsZero() {
		objects, version = k.asOf(r.AsOf)
	}
	fmt.Fprintf(&out, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"%d"},"items":[`, k.name+"List", k.apiVersion(), version)
	for i, e := range matching(k, objects, r) {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(e.json)
	}
	out.WriteString("]}")
	return []byte(out.String())
}

func (k *kind) matches(r *Request, e *entry) bool {
	return e != nil && (r.Namespace == "" || r.Namespace == e.object.GetNamespace()) &&
		r.labels.Matches(labels.Set(e.object.GetLabels())) && (r.fields.Empty() || r.fields.Matches(k.fields(e.object)))
}

func failure(err error) (int, []byte) {
	status, ok := err.(apierrors.APIStatus)
	if !ok {
		status = apierrors.NewInternalError(err)
	}
	s := status.Status()
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, _ := json.Marshal(s)
	return int(s.Code), data
}

// Failure is an error as an answer.
func Failure(err error) (code int, answer []byte) { return failure(err) }

// Initially reports whether a list may be old: the caller knows nothing yet.
func (r *Request) Initially() bool { return r.Verb == "list" && r.version == "0" }

// Initial reports whether a watch asks to begin with what there is.
func (r *Request) Initial() bool { return r.initial }

// Named is the name of the object, which a create has in its body.
func (r *Request) Named() string {
	if r.Verb == "create" && r.Name == "" {
		var object metav1.PartialObjectMetadata
		_ = json.Unmarshal(r.body, &object)
		r.Name = object.Name
	}
	return r.Name
}

// Body is what was sent.
func (r *Request) Body() []byte { return r.body }

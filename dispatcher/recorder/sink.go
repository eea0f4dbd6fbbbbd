package recorder

import (
	"errors"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// sink reports which events are lost. client-go writes an event again for two minutes where no answer came. Where the API server
// answered with an error it gives the event up, although that may be over in a moment. To try again here would hold up the events
// that come after it.
type sink struct {
	record.EventSink
	lost func(about corev1.ObjectReference)
}

func (s sink) Create(event *corev1.Event) (*corev1.Event, error) {
	written, err := s.EventSink.Create(event)
	s.check(event, err)
	return written, err
}

func (s sink) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	written, err := s.EventSink.Patch(event, data)
	s.check(event, err)
	return written, err
}

func (s sink) check(event *corev1.Event, err error) {
	if IsTransient(err) {
		s.lost(event.InvolvedObject)
	}
}

// IsTransient reports whether the API server answered with an error that may be over soon. What it refuses, it would refuse again.
func IsTransient(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests || apierrors.IsConflict(err)
}

// lost forgets the history of an object of which an event was lost, so that the event is recorded again if it is still true. Nothing is done
// for a claim that is forgotten.
func (r *Recorder) lost(about corev1.ObjectReference, retry func(claimUID, configMap string)) {
	uid, configMap := "", ""
	switch about.Kind {
	case "PersistentVolumeClaim":
		uid = string(about.UID)
	case "PersistentVolume":
		uid, _ = podspec.ClaimUIDOf(about.Name)
	case "Pod":
		_, uid, _, _ = podspec.ParseName(about.Name)
	case "ConfigMap":
		configMap = about.Name
	}
	r.mu.Lock()
	h := r.claims[uid]
	if h != nil {
		h.keys = nil
	}
	delete(r.configMaps, configMap)
	r.mu.Unlock()
	if h != nil || configMap != "" {
		retry(uid, configMap)
	}
}

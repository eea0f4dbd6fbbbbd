package recorder

import (
	"fmt"
	"net/http"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/events"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// answers is an API server that answers every write of an event with an error.
type answers struct {
	record.EventSink
	err error
}

func (a answers) Create(*corev1.Event) (*corev1.Event, error)        { return nil, a.err }
func (a answers) Patch(*corev1.Event, []byte) (*corev1.Event, error) { return nil, a.err }

// TestSinkTellsWhatIsLost: client-go itself tries again where no answer came, and what the API server refuses it would refuse again.
func TestSinkTellsWhatIsLost(t *testing.T) {
	resource := schema.GroupResource{Resource: "events"}
	status := func(code int32) error { return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code}} }
	for _, c := range []struct {
		err  error
		lost bool
	}{
		{nil, false},
		{syscall.ECONNRESET, false},
		{apierrors.NewInternalError(fmt.Errorf("etcdserver: request timed out")), true},
		{status(http.StatusServiceUnavailable), true},
		{status(http.StatusGatewayTimeout), true},
		{apierrors.NewTooManyRequests("slow down", 1), true},
		{apierrors.NewConflict(resource, "e", nil), true},
		{apierrors.NewAlreadyExists(resource, "e"), false},
		{apierrors.NewNotFound(resource, "e"), false},
		{apierrors.NewForbidden(resource, "e", nil), false},
		{status(http.StatusUnprocessableEntity), false},
	} {
		var lost []string
		s := sink{answers{err: c.err}, func(about corev1.ObjectReference) { lost = append(lost, about.Name) }}
		event := &corev1.Event{InvolvedObject: corev1.ObjectReference{Name: "data"}}
		_, created := s.Create(event)
		_, patched := s.Patch(event, nil)
		want := "[]"
		if c.lost {
			want = "[data data]"
		}
		if fmt.Sprint(lost) != want || created != c.err || patched != c.err {
			t.Errorf("%v: %v is lost, want %s; %v, %v", c.err, lost, want, created, patched)
		}
	}
}

// TestLostIsSaidAgain: what is lost of a claim, of its volume or of its pods is forgotten, and what is lost of a ConfigMap.
func TestLostIsSaidAgain(t *testing.T) {
	const uid = "11111111-2222-3333-4444-555555555555"
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cm", ResourceVersion: "1"}}
	for _, c := range []struct {
		about         corev1.ObjectReference
		again         string
		claim, config bool // said again
	}{
		{corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data", UID: uid}, "[claim " + uid + "]", true, false},
		{corev1.ObjectReference{Kind: "PersistentVolume", Name: podspec.VolumeName(uid)}, "[claim " + uid + "]", true, false},
		{corev1.ObjectReference{Kind: "Pod", Name: "prov-" + uid + "-0"}, "[claim " + uid + "]", true, false},
		{corev1.ObjectReference{Kind: "ConfigMap", Name: "cm"}, "[ConfigMap cm]", false, true},
		{corev1.ObjectReference{Kind: "PersistentVolumeClaim", Name: "data", UID: "forgotten"}, "[]", false, false},
		{corev1.ObjectReference{Kind: "PersistentVolume", Name: "of-somebody-else"}, "[]", false, false},
	} {
		r, recorded, _ := started(t)
		say := func() string {
			r.Record(Subject{UID: uid, Claim: claim}, events.ClaimWaits(events.ReasonConfigMissing, "none"), nil)
			r.RecordConfigMap(cm, events.ReasonPodRefused, "refused")
			text := fmt.Sprint(len(recorded.Events))
			for len(recorded.Events) > 0 {
				text += ", " + <-recorded.Events
			}
			return text
		}
		say()
		again := []string{}
		r.lost(c.about, func(claimUID, configMap string) {
			if claimUID != "" {
				again = append(again, "claim "+claimUID)
			}
			if configMap != "" {
				again = append(again, "ConfigMap "+configMap)
			}
		})
		want := "0"
		switch {
		case c.claim:
			want = "1, Warning ProvisionerConfigMissing none"
		case c.config:
			want = "1, Warning ProvisionerPodRefused refused"
		}
		if got := say(); got != want || fmt.Sprint(again) != c.again {
			t.Errorf("%s %s: %s, want %s; again %v, want %s", c.about.Kind, c.about.Name, got, want, again, c.again)
		}
	}
}

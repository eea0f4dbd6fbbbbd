package dispatcher

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// A trouble is known until the pod or the event is gone, whichever comes first, and an event that is gone brings none back.
func TestTroubles(t *testing.T) {
	event := &corev1.Event{Reason: "FailedMount", Message: "secret \"login\" not found",
		InvolvedObject: corev1.ObjectReference{Name: podspec.Name(contract.Provision, uid, 0), UID: "pod"}}
	other := event.DeepCopy()
	other.Reason = "MissingClusterDNS"
	d := &Dispatcher{troubles: newTroubles(), lanes: newLanes(1, nil)}
	troubles := d.troubles
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"no event", func() {}, ""},
		{"of something else", func() { d.troubleChanged(other, false) }, ""},
		{"of trouble", func() { d.troubleChanged(event, false) }, `FailedMount: secret "login" not found`},
		{"pod gone", func() { troubles.forget("pod") }, ""},
		{"event gone after its pod", func() { d.troubleChanged(event, true) }, ""},
		{"of trouble again", func() { d.troubleChanged(event, false) }, `FailedMount: secret "login" not found`},
		{"event gone before its pod", func() { d.troubleChanged(event, true) }, ""},
	} {
		if step.do(); troubles.of("pod") != step.want {
			t.Errorf("%s: the trouble is %q, want %q", step.name, troubles.of("pod"), step.want)
		}
	}
	if len(troubles.ofPod) != 0 {
		t.Errorf("%v is kept", troubles.ofPod)
	}
}

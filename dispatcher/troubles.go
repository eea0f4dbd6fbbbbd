package dispatcher

import (
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// troubles are what the kubelet says only in events: that a Secret or a claim which the pod mounts is missing shows
// nowhere in the pod's status.
type troubles struct {
	mu    sync.Mutex
	ofPod map[types.UID]string
}

func newTroubles() *troubles { return &troubles{ofPod: map[types.UID]string{}} }

// startEvents are the reasons of events that say why a pod does not start.
var startEvents = map[string]bool{"FailedMount": true, "FailedAttachVolume": true, "FailedMapVolume": true, "FailedCreatePodSandBox": true}

// note remembers the latest trouble of a pod, and returns the pod's claim if the event is one of trouble.
func (t *troubles) note(event *corev1.Event) (claimUID string, ok bool) {
	_, claimUID, _, ok = podspec.ParseName(event.InvolvedObject.Name)
	if !ok || !startEvents[event.Reason] {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ofPod[event.InvolvedObject.UID] = podspec.Clean(strings.TrimSpace(event.Reason + ": " + event.Message))
	return claimUID, true
}

func (t *troubles) of(pod types.UID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ofPod[pod]
}

func (t *troubles) forget(pod types.UID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.ofPod, pod)
}

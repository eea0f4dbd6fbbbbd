package sim

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// stopGrace is how long before the switch an order may have been decided that arrives after it.
const stopGrace = 10 * time.Second

// stopDeletes sets the switch that stops all deletions.
func (w *World) stopDeletes(long time.Duration) {
	w.create(apiserver.ConfigMaps, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: contract.StopDeletes}, Data: map[string]string{"reason": "a test of the switch"}})
	w.set(func() { w.stoppedSince = time.Now() })
	time.AfterFunc(long, w.allowDeletes)
}

func (w *World) allowDeletes() {
	if w.over.Load() {
		return
	}
	w.set(func() { w.stoppedSince = time.Time{} })
	w.remove("admin", apiserver.ConfigMaps, namespace, contract.StopDeletes)
}

// ordered checks a delete pod that a dispatcher has just created against the switch.
func (w *World) ordered(dispatcher string, pod *corev1.Pod) {
	w.mu.Lock()
	since := w.stoppedSince
	w.mu.Unlock()
	if pod.Labels[contract.LabelOperation] == string(contract.Delete) && !since.IsZero() && time.Since(since) > stopGrace {
		w.violate("%s creates %s, %s after all deletions were stopped", dispatcher, pod.Name, time.Since(since))
	}
}

package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
)

// The API server finds a claim's pods by their label. One whose name is another claim's is not its attempt, as in the cache.
func TestRelabelledPodIsNobodys(t *testing.T) {
	pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon, dispatchertest.Noon)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(&corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{*pod}}); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	controller, _ := idle(t)
	controller.reader.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	s := &snapshot.Snapshot{Now: dispatchertest.Noon, UID: uidOf(1)}
	if err := controller.confirmPods(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, a := range s.All() {
		t.Errorf("claim %s has the attempt %s", s.UID, a.Pod.Name)
	}
}

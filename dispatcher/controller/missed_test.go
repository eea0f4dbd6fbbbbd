package controller

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// A pod that came and went which the cache never showed gives its place back: no event of the cache does that.
func TestMissedPodKeepsNoPlace(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
	}))
	defer server.Close()
	controller, _ := idle(t)
	controller.reader.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	name := podspec.Name(contract.Provision, dispatchertest.UID, 0)
	if _, _, ok := controller.queue.Acquire("silver", dispatchertest.UID, name, 1, time.Now()); !ok {
		t.Fatal("there is no place")
	}
	controller.memory.expectCreation(dispatchertest.UID, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "created"}})
	// The claim is gone, too.
	s := &snapshot.Snapshot{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: "silver", Provisioner: "p"}
	if _, err := controller.advance(t.Context(), s); err != nil || !s.PodMissed {
		t.Fatalf("pod missed: %t, %v", s.PodMissed, err)
	}
	if active, pods := controller.queue.Active("silver"), controller.queue.Pods()["silver"]; active != 0 || pods != 0 {
		t.Errorf("%d claims are known and %d places taken, want none", active, pods)
	}
}

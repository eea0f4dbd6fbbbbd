package controller

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/reconcile"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
)

// A pod of a former leader, which the cache does not show, keeps a delete back.
func TestConfirmDelete(t *testing.T) {
	volume := dispatchertest.Volume("fits released")
	volume.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"}
	for name, c := range map[string]struct {
		live []string
		want bool
	}{
		"no pod":               {nil, true},
		"an expansion runs":    {[]string{"exp-3 running"}, false},
		"a provision runs":     {[]string{"prov-0 running"}, false},
		"an expansion is over": {[]string{"exp-3 done"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
			for _, words := range c.live {
				pods.Items = append(pods.Items, *dispatchertest.Pod(words, dispatchertest.Noon.Add(-time.Minute), dispatchertest.Noon))
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var answer any = &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
				switch {
				case strings.Contains(r.URL.Path, "/persistentvolumes/"):
					answer = volume
				case strings.HasSuffix(r.URL.Path, "/pods"):
					answer = &pods
				}
				w.Header().Set("Content-Type", "application/json")
				if _, missing := answer.(*metav1.Status); missing {
					w.WriteHeader(http.StatusNotFound)
				}
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			controller, _ := idle(t)
			controller.Client = kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
			controller.memory.handOver(dispatchertest.UID, func(m *claimMemory) { m.released = volume.UID }, func() {})
			s := &snapshot.Snapshot{Now: dispatchertest.Noon, UID: dispatchertest.UID, ClassName: "silver", Provisioner: "p", Volume: volume, Released: true,
				Config: &configmaps.Config{Name: "cm", Digest: "d1", StorageClass: "silver", StartTimeout: time.Minute}}
			create, ok := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s))
			if !ok || create.Op != contract.Delete {
				t.Fatal("the cache alone leads to no delete")
			}
			if err := controller.confirm(t.Context(), s, &create.Order); err != nil {
				t.Fatal(err)
			}
			if _, got := reconcile.Find[reconcile.CreatePod](reconcile.Decide(s)); got != c.want {
				t.Errorf("a delete is ordered: %t, want %t", got, c.want)
			}
		})
	}
}

package library

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// TestPatchOfTheCachedVersion: what the library takes off a volume it takes off the version that it saw.
func TestPatchOfTheCachedVersion(t *testing.T) {
	got := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + string(body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"PersistentVolume","apiVersion":"v1"}`)
	}))
	defer server.Close()
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	if err := store.Add(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1", UID: "u", ResourceVersion: "7"}}); err != nil {
		t.Fatal(err)
	}
	c := client{kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL}), store}
	patch := func(name, data string) string {
		t.Helper()
		got = "nothing"
		_, err := c.CoreV1().PersistentVolumes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(data), metav1.PatchOptions{})
		if err != nil {
			return got + ", " + err.Error()
		}
		return got
	}
	for _, c := range []struct{ name, data, want string }{
		{"pvc-1", `{"metadata":{"$deleteFromPrimitiveList/finalizers":["f"]}}`,
			`PATCH /api/v1/persistentvolumes/pvc-1 {"metadata":{"$deleteFromPrimitiveList/finalizers":["f"],"resourceVersion":"7","uid":"u"}}`},
		{"pvc-2", `{"metadata":{"finalizers":null}}`, "nothing, patch volume pvc-2: the cache does not have it any more"},
		{"pvc-1", `{"spec":{}}`, `nothing, patch volume pvc-1: the library patches more than metadata: {"spec":{}}`},
		{"pvc-1", `{"metadata":{"finalizers":null},"spec":{}}`, `nothing, patch volume pvc-1: the library patches more than metadata: {"metadata":{"finalizers":null},"spec":{}}`},
	} {
		if got := patch(c.name, c.data); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.data, got, c.want)
		}
	}
}

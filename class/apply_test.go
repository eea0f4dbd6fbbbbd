package class

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

// TestManager: the field manager is of this command alone, within the API server's bound, and of one class alone.
func TestManager(t *testing.T) {
	var managers []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		managers = append(managers, r.URL.Query().Get("fieldManager"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("{}"))
	}))
	defer server.Close()
	cluster, err := New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 200)
	names := []string{"silver", long + "b", long + "c"}
	for _, name := range names {
		objects, err := Class{Name: name, Place: Default(), Data: map[string]string{"image": "example.com/x"}, Grants: map[string]string{"volumeTypes": "nfs"}}.Objects()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.Apply(t.Context(), name, objects[0], true); err != nil {
			t.Fatal(err)
		}
	}
	if len(managers) != len(names) || managers[0] != "flexctl-class-silver" || len(managers[1]) != 128 || managers[1] == managers[2] || !strings.HasPrefix(managers[1], "flexctl-class-aaa") {
		t.Errorf("the field managers are %q", managers)
	}
}

package apiserver_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
)

const own = `{"metadata": {"name": "own", "labels": {"a": "b"}}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "nfs": {"server": "x", "path": "/y"}}}`

// A pod may do what it was given a right to, with its own volume and with what others have given free.
func TestRights(t *testing.T) {
	s := apiserver.New("get persistentvolumes", "patch persistentvolumes", "get secrets", "create secrets")
	s.Admit("pod", "own")
	s.Admit("delete-pod", "")
	s.AddNode("node-1")
	for _, c := range []struct {
		token, method, path, body string
		code                      int
		text                      string
	}{
		{"", "POST", "persistentvolumes", own, 401, `"message":"Unauthorized"`},
		{"pod", "POST", "persistentvolumes", strings.ReplaceAll(own, `"own"`, `"other"`), 403, "the pod may create only own"},
		{"delete-pod", "POST", "persistentvolumes", own, 403, "the pod may create none"},
		{"pod", "POST", "persistentvolumes", strings.ReplaceAll(own, "1Gi", "0"), 422, "spec.capacity[storage]: Invalid value: \\\"0\\\": must be greater than zero"},
		{"pod", "POST", "persistentvolumes", strings.ReplaceAll(own, `"ReadWriteOnce"`, ""), 422, "spec.accessModes: Required value"},
		{"pod", "POST", "persistentvolumes", own, 201, `"name":"own"`},
		{"pod", "POST", "persistentvolumes", own, 409, "already exists"},
		{"pod", "GET", "persistentvolumes/own", "", 200, `"server":"x"`},
		{"pod", "GET", "persistentvolumes/other", "", 403, "it is not the pod's own"},
		{"pod", "PATCH", "persistentvolumes/own", `{"metadata": {"labels": {"a": null, "c": "d"}}}`, 200, `"labels":{"c":"d"}`},
		{"pod", "DELETE", "persistentvolumes/own", "", 403, "the pod has no right to delete persistentvolumes"},
		{"pod", "POST", "namespaces/flex-provisioners/secrets", `{"metadata": {"name": "s"}}`, 201, `"name":"s"`},
		{"pod", "GET", "namespaces/flex-provisioners/secrets/s", "", 200, `"name":"s"`},
		{"pod", "GET", "namespaces/kube-system/secrets/s", "", 403, "the pod has no right to get namespaces"},
		{"pod", "GET", "nodes", "", 403, "the pod has no right to list nodes"},
	} {
		r := httptest.NewRequest(c.method, "/api/v1/"+c.path, strings.NewReader(c.body))
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s %s by %q: %d %s\nwant %d %s", c.method, c.path, c.token, w.Code, w.Body, c.code, c.text)
		}
	}
}

// A call that is lost after its effect had one, a call that is lost before had none.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault apiserver.Fault
		made  bool
	}{{apiserver.Fault{Before: true}, false}, {apiserver.Fault{After: true}, true}} {
		s := apiserver.New()
		s.Admit("pod", apiserver.AnyVolume)
		s.SetFault(func(int, string) apiserver.Fault { return c.fault })
		server := httptest.NewServer(s)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/persistentvolumes", strings.NewReader(own))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer pod")
		if answer, err := http.DefaultClient.Do(r); err == nil {
			answer.Body.Close()
			t.Errorf("%+v: answered %d", c.fault, answer.StatusCode)
		}
		if made := s.Volume("own") != nil; made != c.made || len(s.Calls()) != 1 {
			t.Errorf("%+v: volume %t, calls %v", c.fault, made, s.Calls())
		}
		server.Close()
	}
}

// A client makes the server keep no more than a cluster would.
func TestLimits(t *testing.T) {
	s := apiserver.New("create secrets")
	s.Admit("pod", "own")
	code := func(path, body string) int {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/"+path, strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer pod")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	if got := code("persistentvolumes", strings.Repeat(" ", 4<<20)+own); got != http.StatusBadRequest {
		t.Errorf("a body of 4 MiB: %d", got)
	}
	for i := range 101 {
		got := code("namespaces/flex-provisioners/secrets", fmt.Sprintf(`{"metadata": {"name": "s-%d"}}`, i))
		if i < 100 && got != http.StatusCreated || i == 100 && got != http.StatusForbidden {
			t.Errorf("secret %d: %d", i, got)
		}
	}
	_ = code(strings.Repeat("%80", 2000), "")
	if calls := s.Calls(); len(calls[len(calls)-1]) > 256 {
		t.Errorf("a call of %d bytes is kept", len(calls[len(calls)-1]))
	}
}

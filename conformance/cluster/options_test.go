package cluster

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/flex-provisioner/flex-provisioner/conformance"
)

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"right":      {func(*Options) {}, ""},
		"no class":   {func(o *Options) { o.Class = "" }, "class: Required value: name the StorageClass that is to be tried"},
		"no size":    {func(o *Options) { o.Size = "much" }, `size: Invalid value: "much": must be a quantity above 0, such as 1Gi`},
		"empty size": {func(o *Options) { o.Size = "0" }, `size: Invalid value: "0": must be a quantity above 0, such as 1Gi`},
		"no time":    {func(o *Options) { o.Timeout = time.Millisecond }, `timeout: Invalid value: "1ms": must be at least 1s`},
		"no kills":   {func(o *Options) { o.Kills = 0 }, "kills: Invalid value: 0: must be at least 1"},
		"no check":   {func(o *Options) { o.Only = []string{"bund"} }, `check[0]: Unsupported value: "bund": supported values: `},
	} {
		o := Options{Class: "silver", Timeout: time.Minute, Kills: 3}
		c.change(&o)
		got := ""
		if faults := o.validate(); len(faults) > 0 {
			got = faults.ToAggregate().Error()
		}
		if got != c.want && (c.want == "" || name != "no check" || !strings.HasPrefix(got, c.want)) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// server is an API server that knows one class, and what the caller may: what allow says.
func server(t *testing.T, class storagev1.StorageClass, allow func(authorizationv1.ResourceAttributes) bool) *rest.Config {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, code int, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		if err := json.NewEncoder(w).Encode(object); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("GET /apis/storage.k8s.io/v1/storageclasses/{name}", func(w http.ResponseWriter, r *http.Request) {
		class.TypeMeta = metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}
		answer(w, http.StatusOK, class)
	})
	mux.HandleFunc("POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		review.Status.Allowed = allow(*review.Spec.ResourceAttributes)
		answer(w, http.StatusCreated, review)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the kit did %s %s, which it may not", r.Method, r.URL.Path)
		answer(w, http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure",
			Reason: metav1.StatusReasonForbidden, Message: "forbidden", Code: http.StatusForbidden})
	})
	listener := httptest.NewServer(mux)
	t.Cleanup(listener.Close)
	return &rest.Config{Host: listener.URL}
}

// What the caller may not do is not checked, never passed, and not tried either.
func TestWithoutRights(t *testing.T) {
	config := server(t, *class(), func(authorizationv1.ResourceAttributes) bool { return false })
	report, err := Run(t.Context(), Options{Config: config, Class: "silver", Namespace: "team-a", ProvisionersNamespace: "flex-provisioners", Timeout: time.Minute, Kills: 1})
	if err != nil {
		t.Fatal(err)
	}
	if report.Passed {
		t.Error("it passed")
	}
	for _, result := range report.Results {
		if result.Status != conformance.Skipped || !strings.HasPrefix(result.Reason, "not checked: you may not ") {
			t.Errorf("check %s: %s, %s", result.Name, result.Status, result.Reason)
		}
	}
	const want = "not checked: you may not create persistentvolumeclaims in namespace team-a, nor get persistentvolumeclaims in namespace team-a, " +
		"nor delete persistentvolumeclaims in namespace team-a, nor get persistentvolumes"
	if got := report.Results[1]; got.Name != "bound" || got.Reason != want {
		t.Errorf("check %s: %s, want %s", got.Name, got.Reason, want)
	}
}

func TestRefused(t *testing.T) {
	retain := *class()
	policy := corev1.PersistentVolumeReclaimRetain
	retain.ReclaimPolicy = &policy
	config := server(t, retain, func(authorizationv1.ResourceAttributes) bool { return true })
	_, err := Run(t.Context(), Options{Config: config, Class: "silver", Namespace: "team-a", Timeout: time.Minute, Kills: 1})
	const want = "StorageClass silver has reclaimPolicy Retain: what is made for the trial would stay; try a class that is the same but for reclaimPolicy Delete"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

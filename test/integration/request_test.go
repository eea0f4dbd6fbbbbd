//go:build integration

package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// request is sent as it stands, so that a test's table is data.
type request struct {
	// Verb is GET, POST, PUT, PATCH (a strategic merge patch) or DELETE.
	Verb string
	Path string
	Body map[string]any
}

// send makes the request as a dry run, with the holder's token. A connection (a POST without a body) knows no dry run.
func send(t *testing.T, token string, r request) error {
	t.Helper()
	client := server.Client(token).Discovery().RESTClient()
	var call *rest.Request
	switch r.Verb {
	case "GET":
		call = client.Get()
	case "POST":
		call = client.Post()
	case "PUT":
		call = client.Put()
	case "PATCH":
		call = client.Patch(types.StrategicMergePatchType)
	case "DELETE":
		call = client.Delete()
	default:
		t.Fatalf("verb %q of %s is none of GET, POST, PUT, PATCH, DELETE", r.Verb, r.Path)
	}
	call = call.RequestURI(r.Path)
	if connection := r.Verb == "POST" && r.Body == nil; !connection && r.Verb != "GET" {
		call = call.Param("dryRun", "All")
	}
	if r.Body != nil {
		body, err := json.Marshal(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		call = call.Body(body)
		if r.Verb != "PATCH" {
			call = call.SetHeader("Content-Type", "application/json")
		}
	}
	return call.Do(t.Context()).Error()
}

// judge compares an answer with what a policy should refuse it with; "" is not to be refused.
func judge(err error, refused string) error {
	switch {
	case refused == "" && err != nil:
		return fmt.Errorf("refused: %w, want accepted", err)
	case refused == "":
		return nil
	case err == nil:
		return fmt.Errorf("accepted, want refused: %s", refused)
	case !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") || !strings.HasSuffix(err.Error(), " denied request: "+refused):
		return fmt.Errorf("refused: %w, want a policy that says: %s", err, refused)
	default:
		return nil
	}
}

// judgeRBAC demands that not a policy but RBAC refused.
func judgeRBAC(err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), " cannot ") {
		return nil
	}
	return fmt.Errorf("answer: %v, want a refusal by RBAC", err)
}

// judgeInvalid demands that the API server found the object invalid, for this reason.
func judgeInvalid(err error, reason string) error {
	if apierrors.IsInvalid(err) && strings.HasSuffix(err.Error(), " is invalid: "+reason) {
		return nil
	}
	return fmt.Errorf("answer: %v, want invalid: %s", err, reason)
}

// readData reads testdata/name strictly.
func readData(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		t.Fatalf("read testdata/%s: %v", name, err)
	}
}

// merged is the object with a merge patch (RFC 7386) applied; neither is changed.
func merged(object, patch map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range object {
		out[key] = value
	}
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap:
			old, _ := out[key].(map[string]any)
			out[key] = merged(old, inner)
		default:
			out[key] = value
		}
	}
	return out
}

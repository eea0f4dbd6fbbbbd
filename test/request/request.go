// Package request sends requests that stand in tables as data: what test/attack and test/integration try.
package request

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// Request is sent as it stands.
type Request struct {
	// Verb is GET, POST, PUT, PATCH (a strategic merge patch), MERGE (a merge patch, which custom resources take) or DELETE.
	Verb string
	Path string
	Body map[string]any
}

// Send makes the request as a dry run. A connection, a POST without a body, knows none.
func (r Request) Send(ctx context.Context, client rest.Interface) ([]byte, error) {
	var call *rest.Request
	switch r.Verb {
	case "GET", "POST", "PUT", "DELETE":
		call = client.Verb(r.Verb)
	case "PATCH":
		call = client.Patch(types.StrategicMergePatchType)
	case "MERGE":
		call = client.Patch(types.MergePatchType)
	default:
		return nil, fmt.Errorf("verb %q of %s is none of GET, POST, PUT, PATCH, MERGE, DELETE", r.Verb, r.Path)
	}
	call = call.RequestURI(r.Path)
	if connection := r.Verb == "POST" && r.Body == nil; !connection && r.Verb != "GET" {
		call = call.Param("dryRun", "All")
	}
	if r.Body != nil {
		body, err := json.Marshal(r.Body)
		if err != nil {
			return nil, err
		}
		call = call.Body(body)
		if r.Verb != "PATCH" && r.Verb != "MERGE" {
			call = call.SetHeader("Content-Type", "application/json")
		}
	}
	result := call.Do(ctx)
	if err := result.Error(); err != nil { // unlike Raw's, it says what an unknown answer had in it
		return nil, err
	}
	return result.Raw()
}

// Merged is the object with a merge patch (RFC 7386) applied; neither is changed.
func Merged(object, patch map[string]any) map[string]any {
	out := maps.Clone(object)
	if out == nil {
		out = map[string]any{}
	}
	for key, value := range patch {
		inner, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(out, key)
		case isMap:
			old, _ := out[key].(map[string]any)
			out[key] = Merged(old, inner)
		default:
			out[key] = value
		}
	}
	return out
}

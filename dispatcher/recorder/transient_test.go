package recorder

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What may be over a moment later is told only if it lasts.
func TestTransient(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err       error
		transient bool
	}{
		{nil, false},
		{apierrors.NewForbidden(pods, "prov-0", errors.New("exceeded quota")), false},
		{apierrors.NewBadRequest("no such field"), false},
		{apierrors.NewAlreadyExists(pods, "prov-0"), false},
		{apierrors.NewNotFound(pods, "prov-0"), false},
		{errors.New("data[node-selector] is no label"), false},
		{apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		{apierrors.NewServiceUnavailable("no endpoints"), true},
		{apierrors.NewTimeoutError("slow", 1), true},
		{apierrors.NewTooManyRequests("slow down", 1), true},
		{apierrors.NewConflict(pods, "prov-0", nil), true},
		{&url.Error{Op: "Post", URL: "https://10.96.0.1:443", Err: errors.New("connection reset")}, true},
		{fmt.Errorf("unexpected error when reading response body: %w", io.ErrUnexpectedEOF), true},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("create pod ns/prov-0: %w", err)
		}

		if got := IsTransient(err); got != c.transient {
			t.Errorf("%v is transient: %t, want %t", err, got, c.transient)
		}
	}
}

package controller

import (
	"errors"
	"fmt"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A claim's status says why no pod could be created where that lasts, and not what may be over a moment later.
func TestLasts(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewForbidden(pods, "prov-0", errors.New("exceeded quota")), true},
		{apierrors.NewBadRequest("no such field"), true},
		{errors.New("data[node-selector] is no label"), true},
		{apierrors.NewInternalError(errors.New("etcd")), false},
		{apierrors.NewTimeoutError("slow", 1), false},
		{apierrors.NewTooManyRequests("slow down", 1), false},
		{apierrors.NewConflict(pods, "prov-0", nil), false},
		{&url.Error{Op: "Post", URL: "https://10.96.0.1:443", Err: errors.New("connection reset")}, false},
	} {
		if got := isPermanent(fmt.Errorf("create pod ns/prov-0: %w", c.err)); got != c.want {
			t.Errorf("%v lasts: %t, want %t", c.err, got, c.want)
		}
	}
}

//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/yaml"

	"github.com/flex-provisioner/flex-provisioner/test/request"
)

// send makes the request as a dry run, with the holder's token.
func send(t *testing.T, token string, r request.Request) error {
	t.Helper()
	_, err := r.Send(t.Context(), server.Client(token).Discovery().RESTClient())
	return err
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

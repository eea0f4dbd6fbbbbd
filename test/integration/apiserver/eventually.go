package apiserver

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Eventually asks until there is no error, and ends the test with the last one after three minutes, which a starved
// machine may take. Policies and controllers act on what they watch, a moment after it was written.
func Eventually(t testing.TB, ask func() error) {
	t.Helper()
	var err error
	if late := wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		err = ask()
		return err == nil, nil
	}); late != nil {
		t.Fatal(err)
	}
}

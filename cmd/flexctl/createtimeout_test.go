package main

import (
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

func TestCreateTimeout(t *testing.T) {
	for _, c := range []struct {
		seconds int64
		want    time.Duration
	}{{0, 2 * time.Minute}, {10, 5 * time.Second}, {240, 2 * time.Minute}, {600, 2 * time.Minute}} {
		if got := createTimeout(contract.Request{TimeoutSeconds: c.seconds}); got != c.want {
			t.Errorf("a pod of %d s waits %s, want %s", c.seconds, got, c.want)
		}
	}
}

package main

import (
	"context"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// expand asks for so many GiB, with the volume that the cluster has.
func (s *stage) expand(ctx context.Context, gib int64) result {
	s.t.Helper()
	request := s.request(contract.Expand)
	request.CurrentSizeBytes, request.SizeBytes = request.SizeBytes, gib<<30
	return s.run(ctx, request, s.cluster.Volume(name))
}

// Struck at any call, the next run gets there, and no run that was struck says that it failed for good or that it is done
// before it is.
func TestExpandStruck(t *testing.T) {
	t.Parallel()
	eachStrike(t, 4, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := newStage(t, fake.WithPace(250*time.Millisecond))
		s.provision(t.Context()).want(t, 0, "")
		strike(s, func(ctx context.Context) result {
			r := s.expand(ctx, 20)
			if v := s.cinder.Volume(name); r.code == 0 && v.Size != 20 || r.code != 0 && r.code != contract.ExitTryAgain {
				t.Errorf("ended with %d at %d GiB: %s", r.code, v.Size, r.message)
			}
			return r
		})
		s.expand(t.Context(), 20).want(t, 0, "")
		s.wantOne()
		if v := s.cinder.Volume(name); v.Size != 20 {
			t.Errorf("the volume has %d GiB, want 20", v.Size)
		}
	})
}

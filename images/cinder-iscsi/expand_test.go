package main

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

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

// inUse is a stage with a volume of 10 GiB in use.
func inUse(t testing.TB, options ...fake.Option) *stage {
	s := newStage(t, options...)
	s.provision(t.Context()).want(t, 0, "")
	s.cinder.ForgetCalls()
	return s
}

func (s *stage) wantSize(gib int) {
	s.t.Helper()
	s.wantOne()
	if v := s.cinder.Volume(name); v.Size != gib {
		s.t.Errorf("the volume has %d GiB, want %d", v.Size, gib)
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	s.expand(t.Context(), 20).want(t, 0, "")
	s.wantSize(20)
	wantCalls(t, s, []string{"GET /volumes/detail", "os-extend", "GET /volumes/detail", "GET /volumes/detail"})
	// The second one is an attempt after one whose end was lost.
	s.expand(t.Context(), 20).want(t, 0, "")
	wantCalls(t, s, []string{"GET /volumes/detail"})
	s.expand(t.Context(), 15).want(t, 0, "")
	s.wantSize(20)
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
}

// Fractions of a GiB are rounded up, so that the storage has at least what was asked for.
func TestExpandRoundsUp(t *testing.T) {
	t.Parallel()
	s := inUse(t)
	request := s.request(contract.Expand)
	request.CurrentSizeBytes, request.SizeBytes = 10<<30, 10<<30+1
	s.run(t.Context(), request, s.cluster.Volume(name)).want(t, 0, "")
	s.wantSize(11)
}

// What an expansion finds, and what it makes of it. Code 1 says that the volume is not and will not be so large; 75 that
// nobody knows.
func TestExpandFails(t *testing.T) {
	t.Parallel()
	const id = "dae46dbd-d712-48fe-af72-de0872d24140"
	for _, c := range []struct {
		name, status string // no status: no volume
		prepare      func(*stage)
		code         int
		message      string
	}{
		{name: "the driver fails", status: "in-use", prepare: func(s *stage) { s.cinder.FailExtend() }, code: 1,
			message: "cinder volume " + id + " is error_extending with 10 GiB, not 20: extend volume:Volume Driver failed to extend volume."},
		{name: "the scheduler finds no room", status: "in-use", prepare: func(s *stage) { s.cinder.FullExtend() }, code: 1,
			message: "cinder volume " + id + " is in-use with 10 GiB, not 20: extend volume:Could not find any available weighted backend."},
		{name: "an earlier run failed", status: "error_extending", code: 1,
			message: "cinder volume " + id + " is error_extending with 10 GiB, not 20: cinder does not say why"},
		{name: "over quota", status: "in-use", prepare: func(s *stage) { s.cinder.SetQuota(project, fake.Quota{Volumes: 10, Gigabytes: 15}) }, code: 1,
			message: "extend " + id + ": VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. " +
				"Requested 10G, quota is 15G and 10G has been consumed. (HTTP 413)"},
		{name: "somebody deleted it", code: 75,
			message: "there is no cinder volume " + name + "; did somebody delete it?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, fake.WithPace(fake.Reads(0)))
			volume := corev1.PersistentVolume{}
			volume.Name = name
			if c.status != "" {
				s.cinder.AddVolume(fake.Volume{ID: id, Name: name, Status: c.status, Size: 10, Metadata: ourMetadata, Project: project,
					Attachments: []fake.Attachment{{Host: "k8s-8b6e7a3e0d9f4a539d", Device: "/kubernetes/" + name}}})
			}
			if c.prepare != nil {
				c.prepare(s)
			}
			request := s.request(contract.Expand)
			request.SizeBytes = 20 << 30
			s.run(t.Context(), request, &volume).want(t, c.code, c.message)
		})
	}
}

// An expansion that is still under way when the pod has to end says that it is, not that it failed.
func TestExpandTakesLonger(t *testing.T) {
	t.Parallel()
	s := inUse(t, fake.WithPace(fake.After(0)))
	s.cinder.SetPace(fake.After(time.Hour))
	request := s.request(contract.Expand)
	request.CurrentSizeBytes, request.SizeBytes, request.TimeoutSeconds = 10<<30, 20<<30, 1
	v := s.cinder.Volume(name)
	s.run(t.Context(), request, s.cluster.Volume(name)).want(t, contract.ExitTryAgain,
		"gave up before the pod's deadline of 1 s while cinder volume "+v.ID+" is extending: …")
	s.cinder.Settle()
	s.expand(t.Context(), 20).want(t, 0, "")
	s.wantSize(20)
}

// Struck at any call, the next run gets there, and no run that was struck says that it failed for good or that it is done
// before it is.
func TestExpandStruck(t *testing.T) {
	t.Parallel()
	eachStrike(t, 4, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := inUse(t)
		strike(s, func(ctx context.Context) result {
			r := s.expand(ctx, 20)
			if v := s.cinder.Volume(name); r.code == 0 && v.Size != 20 || r.code != 0 && r.code != contract.ExitTryAgain {
				t.Errorf("ended with %d at %d GiB: %s", r.code, v.Size, r.message)
			}
			return r
		})
		s.expand(t.Context(), 20).want(t, 0, "")
		s.wantSize(20)
	})
}

package main

import (
	"context"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

const snapUID = "c1a54d5e-7a0f-4b4e-9b8f-2f1d0c3b4a59"

// snapshot takes a snapshot of the volume that the cluster has.
func (s *stage) snapshot(ctx context.Context) result {
	s.t.Helper()
	return s.run(ctx, s.snapshotRequest(contract.Snapshot), s.cluster.Volume(name))
}

func (s *stage) deleteSnapshot(ctx context.Context) result {
	s.t.Helper()
	return s.run(ctx, s.snapshotRequest(contract.DeleteSnapshot), s.cluster.Volume(name))
}

func (s *stage) snapshotRequest(op contract.Operation) sdk.Request {
	request := s.request(op)
	request.Claim = contract.Claim{}
	request.Snapshot = &contract.SnapshotRequest{Name: "snap-" + snapUID, Namespace: "team-a", VolumeSnapshot: "nightly", UID: snapUID}
	return request
}

// wantSnapshots checks how many there are, which all are whole.
func (s *stage) wantSnapshots(want int) {
	s.t.Helper()
	all := s.cinder.Snapshots()
	if len(all) != want {
		s.t.Errorf("there are %d snapshots, want %d: %+v", len(all), want, all)
	}
	for _, snapshot := range all {
		if snapshot.Status != "available" {
			s.t.Errorf("snapshot %+v", snapshot)
		}
	}
}

// After a snapshot that died at any call, the next one ends with exactly one, and none says that it is there before it is.
func TestKilledSnapshot(t *testing.T) {
	t.Parallel()
	eachStrike(t, 4, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := newStage(t)
		s.provision(t.Context()).want(t, 0, "")
		strike(s, func(ctx context.Context) result {
			r := s.snapshot(ctx)
			if r.code == 0 {
				s.wantSnapshots(1)
			}
			return r
		})
		s.snapshot(t.Context()).want(t, 0, "")
		s.wantSnapshots(1)
		s.wantOne()
		s.deleteSnapshot(t.Context()).want(t, 0, "")
		s.wantSnapshots(0)
		s.delete(t.Context()).want(t, 0, "")
		s.wantNothing()
	})
}

// A removal that died at any call is ended by the next one, and none says that the snapshot is gone before it is.
func TestKilledDeleteSnapshot(t *testing.T) {
	t.Parallel()
	eachStrike(t, 3, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := newStage(t)
		s.provision(t.Context()).want(t, 0, "")
		s.snapshot(t.Context()).want(t, 0, "")
		strike(s, func(ctx context.Context) result {
			r := s.deleteSnapshot(ctx)
			if r.code == 0 {
				s.wantSnapshots(0)
			}
			return r
		})
		s.deleteSnapshot(t.Context()).want(t, 0, "")
		s.wantSnapshots(0)
		s.wantOne()
	})
}

// After a restore that died at any call, the next one ends with one volume, which has the snapshot's data.
func TestKilledRestore(t *testing.T) {
	t.Parallel()
	eachStrike(t, 8, func(t *testing.T, strike func(*stage, func(context.Context) result) bool) {
		s := newStage(t).asking(func(r *sdk.Request) {
			r.Source = &contract.Source{Namespace: "team-a", Name: "nightly", Snapshot: "nightly"}
		})
		s.cinder.AddVolume(fake.Volume{Name: "origin", Size: 10, Project: project})
		snapshot := s.cinder.AddSnapshot(fake.Snapshot{Name: "nightly", Volume: "origin"})
		strike(s, s.provision)
		s.provision(t.Context()).want(t, 0, "")
		if v := s.cinder.Volume(name); v.Status != "in-use" || v.SourceSnapshot != snapshot.ID || len(s.cinder.Volumes()) != 2 {
			t.Errorf("in cinder there is\n%s", s.cinder.Volumes())
		}
	})
}

// Snapshots side by side, as when a node comes back, keep the same one.
func TestSnapshotsSideBySide(t *testing.T) {
	t.Parallel()
	for range 5 {
		s := newStage(t)
		s.provision(t.Context()).want(t, 0, "")
		done := make(chan result)
		for range 3 {
			go func() { done <- s.snapshot(t.Context()) }()
		}
		for range 3 {
			<-done
		}
		s.snapshot(t.Context()).want(t, 0, "")
		s.cinder.Settle()
		s.wantSnapshots(1)
		s.deleteSnapshot(t.Context()).want(t, 0, "")
		s.delete(t.Context()).want(t, 0, "")
		s.wantNothing()
	}
}

// Volumes, snapshots and what was restored from them can be deleted in any order: what has to wait says for what.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	s.snapshot(t.Context()).want(t, 0, "")
	s.delete(t.Context()).want(t, 75, "volume has snapshots, and is removed after them; delete their VolumeSnapshots, and what has none by openstack volume "+
		`snapshot delete: "snap-`+snapUID+`" (`+s.cinder.Snapshots()[0].ID+")")
	s.wantOne()
	s.cinder.Fail(fake.SnapshotBusy)
	s.deleteSnapshot(t.Context()).want(t, 75, "cinder snapshot "+s.cinder.Snapshots()[0].ID+" is available: delete snapshot:Snapshot is busy.; "+
		"it is removed after what depends on it, such as volumes that were restored from it")
	s.deleteSnapshot(t.Context()).want(t, 0, "")
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
}

// A snapshot's ID is a part of a URL. Nothing but looking is done with what cannot be one.
func TestHostileSnapshots(t *testing.T) {
	t.Parallel()
	const metadata = `"name": "snap-` + snapUID + `", "metadata": {"flex-provisioner.io/snapshot-uid": "` + snapUID + `"}`
	for _, c := range []struct{ snapshot, want string }{
		{`{"id": "../../x", "volume_id": "` + hostileID + `", "status": "available", ` + metadata + `}`, `snapshot ID "../../x" is not a UUID`},
		{`{"id": "` + hostileID + `", "volume_id": "../x", "status": "available", ` + metadata + `}`, "snapshot " + hostileID + `: volume_id "../x" is not a UUID`},
		{`{"id": "` + hostileID + `", "volume_id": "` + hostileID + `", "status": "a\nb", ` + metadata + `}`,
			"snapshot " + hostileID + `: status "a\nb" is not of 1 to 64 small letters, '_' and '-'`},
		{`{"id": "` + hostileID + `", "volume_id": "` + hostileID + `", "status": "available", "size": -1, ` + metadata + `}`,
			"snapshot " + hostileID + ": size -1 GiB is not between 0 and 2147483647"},
	} {
		s := newStage(t)
		s.provision(t.Context()).want(t, 0, "")
		s.cinder.ForgetCalls()
		s.cinder.Fault(fake.On("GET /snapshots/detail").Always().Answer(200, "application/json", `{"snapshots": [`+c.snapshot+`]}`))
		want := "cinder's answer: " + c.want + "; is the endpoint right?"
		s.snapshot(t.Context()).want(t, 1, want)
		s.deleteSnapshot(t.Context()).want(t, 1, want)
		for _, call := range s.cinder.Calls() {
			if call.Method != "GET" {
				t.Errorf("%s: %s %s", c.want, call.Method, call.Path)
			}
		}
	}
}

//go:build cinder

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// realSnapshot runs an operation on the snapshot of a claim's volume.
func (s *stage) realSnapshot(op contract.Operation, uid string) result {
	s.t.Helper()
	s.change = func(r *sdk.Request) {
		r.Claim = contract.Claim{}
		r.Snapshot = &contract.SnapshotRequest{Name: "snap-" + uid, Namespace: "team-a", VolumeSnapshot: "nightly", UID: uid}
	}
	defer func() { s.change = nil }()
	return s.realRun(s.t.Context(), op, uid)
}

// realRestore makes a volume of the snapshot.
func (s *stage) realRestore(uid, to string) result {
	s.t.Helper()
	s.change = func(r *sdk.Request) {
		r.Source = &contract.Source{Namespace: "team-a", Name: "nightly", VolumeName: "pvc-" + uid, Snapshot: "snap-" + uid}
	}
	defer func() { s.change = nil }()
	return s.realRun(s.t.Context(), contract.Provision, to)
}

// disk is the file of a volume of the sparse backend.
func disk(t *testing.T, id string) string {
	t.Helper()
	file := os.Getenv("CINDER_ENV")
	if file == "" {
		file = "../../.cinder/env"
	}
	return filepath.Join(filepath.Dir(file), "state", "volumes", "volume-"+id)
}

func writeDisk(t *testing.T, id, text string) {
	t.Helper()
	file, err := os.OpenFile(disk(t, id), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte(text), 4096); err != nil {
		t.Fatal(err)
	}
}

func readDisk(t *testing.T, id string, length int) string {
	t.Helper()
	file, err := os.Open(disk(t, id))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	data := make([]byte, length)
	if _, err := file.ReadAt(data, 4096); err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// orders are those in which a volume, its snapshot and what was restored from it can be deleted.
var orders = []string{"volume snapshot restored", "volume restored snapshot", "snapshot volume restored",
	"snapshot restored volume", "restored volume snapshot", "restored snapshot volume"}

// A snapshot has the data of its moment, and all is gone in the end, in whatever order it is deleted.
func TestRealSnapshots(t *testing.T) {
	for how, config := range credentials(t) {
		for _, order := range orders {
			t.Run(how+" "+order, func(t *testing.T) { tryOrder(t, realStage(t, config), order, true) })
		}
	}
}

// As TestRealSnapshots, with a backend whose snapshots and volumes depend on each other.
func TestRealCephSnapshots(t *testing.T) {
	if environment(t)["CEPH_CONF"] == "" {
		t.Skip("there is no Ceph: CEPH=1 make cinder-up")
	}
	for how, config := range credentials(t) {
		for _, order := range orders {
			t.Run(how+" "+order, func(t *testing.T) {
				s := realStage(t, config)
				s.parameters = map[string]string{"type": "ceph", "rbd": "ceph-csi", "cephSecretName": "ceph",
					"cephSecretNamespace": "ceph", "cephClusterID": "test"}
				tryOrder(t, s, order, false)
			})
		}
	}
}

func tryOrder(t *testing.T, s *stage, order string, sparse bool) {
	now := fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
	uid, to := "5a4e0000-0000-4000-8000-"+now, "4e570000-0000-4000-8000-"+now
	s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
	if sparse {
		writeDisk(t, s.realVolume(uid).ID, "before")
	}
	for range 2 { // the second run finds what is there, as after a lost answer
		s.realSnapshot(contract.Snapshot, uid).want(t, 0, "")
	}
	taken, err := s.client(t).FindSnapshots(t.Context(), "snap-"+uid)
	if err != nil || len(taken) != 1 || taken[0].Status != "available" {
		t.Fatalf("in cinder there is %+v, %v", taken, err)
	}
	if sparse {
		writeDisk(t, s.realVolume(uid).ID, "after!")
	}
	s.realRestore(uid, to).want(t, 0, "")
	if sparse {
		if got := readDisk(t, s.realVolume(to).ID, 6); got != "before" {
			t.Errorf("the restored volume has %q", got)
		}
	}

	remove := map[string]func() result{
		"volume":   func() result { return s.realRun(t.Context(), contract.Delete, uid) },
		"restored": func() result { return s.realRun(t.Context(), contract.Delete, to) },
		"snapshot": func() result { return s.realSnapshot(contract.DeleteSnapshot, uid) },
	}
	var waiting []string
	snapshotGone := false
	for _, what := range strings.Fields(order) {
		r := remove[what]()
		if what == "volume" && !snapshotGone {
			r.want(t, contract.ExitTryAgain, "volume has snapshots, and is removed after them; delete their VolumeSnapshots, "+
				`and what has none by openstack volume snapshot delete: "snap-`+uid+`" (`+taken[0].ID+")")
		}
		switch {
		case r.code == 0:
			snapshotGone = snapshotGone || what == "snapshot"
			continue
		case r.code != contract.ExitTryAgain:
			t.Errorf("%s ended with %d: %s", what, r.code, r.message)
		}
		t.Logf("%s waits: %s", what, r.message)
		waiting = append(waiting, what)
	}
	for range waiting { // what waits for something that waits needs another round
		for _, what := range waiting {
			remove[what]()
		}
	}
	for what := range remove {
		remove[what]().want(t, 0, "")
	}
	left, err := s.client(t).FindSnapshots(t.Context(), "snap-"+uid)
	if err != nil || len(left) != 0 || s.realVolume(uid) != nil || s.realVolume(to) != nil {
		t.Errorf("left: %+v, %v", left, err)
	}
}

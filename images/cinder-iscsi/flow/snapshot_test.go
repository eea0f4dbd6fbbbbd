package flow

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

const (
	snapUID  = "c1a54d5e-7a0f-4b4e-9b8f-2f1d0c3b4a59"
	snapName = "snap-" + snapUID
	snapID   = "ee185302-888b-4f4b-91ee-2c0374729dc2"
	otherID  = "c7f0cd5e-6431-4491-8078-e34d64c43a8d"
)

// snapshot takes the snapshot of a volume that is there.
func (s *scene) snapshot() error {
	s.t.Helper()
	s.ask(snapName)
	return s.flow().Snapshot(s.context(), pvOf(id))
}

// deleteSnapshot removes a snapshot of which nothing is known but the handle.
func (s *scene) deleteSnapshot(handle string) error {
	s.t.Helper()
	s.ask(handle)
	return s.flow().DeleteSnapshot(s.context(), nil)
}

func (s *scene) ask(handle string) {
	s.request.Claim = contract.Claim{}
	s.request.Snapshot = &contract.SnapshotRequest{
		Name: handle, Namespace: "team-a", VolumeSnapshot: "nightly", UID: snapUID,
	}
}

// taken puts a snapshot of the claim's volume there, as one that an earlier run requested.
func (s *scene) taken(in fake.Snapshot) {
	in.Volume, in.Name, in.Metadata = id, snapName, map[string]string{metaSnapshotUID: snapUID}
	if in.ID == "" {
		in.ID = snapID
	}
	s.cinder.AddSnapshot(in)
}

// byHand puts a snapshot there that the provisioner did not take.
func (s *scene) byHand(in fake.Snapshot) {
	in.Volume = id
	s.cinder.AddSnapshot(in)
}

// wantSnapshots checks the snapshots in Cinder, each by its state.
func (s *scene) wantSnapshots(want ...string) {
	s.t.Helper()
	var got []string
	for _, snapshot := range s.cinder.Snapshots() {
		got = append(got, snapshot.Status)
	}
	if !slices.Equal(got, want) {
		s.t.Errorf("in cinder there are the snapshots %q, want %q", got, want)
	}
}

// TestSnapshot: from each state of volume and snapshot, what is asked for, and what there is then.
func TestSnapshot(t *testing.T) {
	held := fake.Volume{Status: "in-use", Attachments: attached()}
	type row struct {
		volume  fake.Volume
		prepare func(*scene)
		code    int
		err     string
		calls   []string
		want    []string
	}
	const other = "dae46dbd-d712-48fe-af72-de0872d24141"
	again := []string{callFind, callSnapshots, callDeleteSnapshot, callSnapshots, callSnapshots, callSnapshot, callSnapshots}
	playEach(t, map[string]row{
		"in use":    {held, nil, 0, "", []string{callFind, callSnapshots, callSnapshot, callSnapshots, callSnapshots}, []string{"available"}},
		"available": {fake.Volume{}, nil, 0, "", []string{callFind, callSnapshots, callSnapshot, callSnapshots, callSnapshots}, []string{"available"}},
		"there":     {held, func(s *scene) { s.taken(fake.Snapshot{}) }, 0, "", []string{callFind, callSnapshots}, []string{"available"}},
		"of an earlier run": {held, func(s *scene) {
			s.taken(fake.Snapshot{Status: "creating"})
		}, 75, "gave up before the pod's deadline of 60 s while cinder snapshot " + snapID + " is creating: context deadline exceeded", nil, []string{"creating"}},
		"failed before": {held, func(s *scene) { s.taken(fake.Snapshot{Status: "error"}) }, 0, "", again, []string{"available"}},
		"fails": {held, func(s *scene) { s.cinder.Fail(fake.SnapshotFails) }, 1, "cinder snapshot {s} is error: create snapshot:Snapshot failed to create.",
			[]string{callFind, callSnapshots, callSnapshot, callSnapshots, callSnapshots, callMessages}, []string{"error"}},
		"not deleted": {held, func(s *scene) { s.taken(fake.Snapshot{Status: "error_deleting"}) }, 1,
			"cinder snapshot " + snapID + " is error_deleting, and cinder does not say why", []string{callFind, callSnapshots, callMessages}, []string{"error_deleting"}},
		"not ours": {held, func(s *scene) { s.byHand(fake.Snapshot{ID: snapID, Name: snapName}) }, 64, "cinder snapshot " + snapID + " is called " + snapName +
			" but has not flex-provisioner.io/snapshot-uid=" + snapUID + " in its metadata, so it is not ours; rename it or set the metadata",
			[]string{callFind, callSnapshots}, []string{"available"}},
		"of another volume": {held, func(s *scene) {
			s.cinder.AddVolume(fake.Volume{ID: other, Project: project})
			s.cinder.AddSnapshot(fake.Snapshot{ID: snapID, Name: snapName, Volume: other, Metadata: map[string]string{metaSnapshotUID: snapUID}})
		}, 1, "cinder snapshot " + snapID + " is called " + snapName + ", but is one of cinder volume " + other + " and not of " + id + "; rename it",
			[]string{callFind, callSnapshots}, []string{"available"}},
		"of two runs": {held, func(s *scene) {
			s.taken(fake.Snapshot{Status: "error"})
			s.taken(fake.Snapshot{ID: otherID})
		}, 0, "", []string{callFind, callSnapshots, callDeleteSnapshot}, []string{"deleting", "available"}},
		"over quota": {held, func(s *scene) { s.cinder.SetQuota("", fake.Quota{Volumes: 1, Gigabytes: 19}) }, 1, "create snapshot " + snapName +
			": VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 10G, quota is 19G and 10G has been consumed. (HTTP 413)",
			[]string{callFind, callSnapshots, callSnapshot}, nil},
		"a job of Cinder's": {fake.Volume{Status: "backing-up"}, nil, 75, "cinder volume " + id + " is backing-up, in which it can have no snapshot",
			[]string{callFind, callSnapshots}, nil},
		"volume failed": {fake.Volume{Status: "error"}, nil, 1, "cinder volume " + id + " is error, and cinder does not say why",
			[]string{callFind, callSnapshots, callMessages}, nil},
		"no volume": {fake.Volume{ID: other}, func(s *scene) {
			s.cinder.SetStatus(other, "deleting")
			s.cinder.Fault(fake.On(callFind).Always().Answer(200, "application/json", `{"volumes": []}`))
		},
			1, "there is no cinder volume " + name + "; did somebody delete it?", []string{callFind, callShow}, nil},
		"found after a failure": {held, refuse(callSnapshots, 500, "broken"), 0, "",
			[]string{callFind, callSnapshots, callSnapshots, callSnapshot, callSnapshots, callSnapshots}, []string{"available"}},
		"not allowed": {held, refuse(callSnapshot, 403, "no"), 64, "create snapshot " + snapName + ": no (HTTP 403)",
			[]string{callFind, callSnapshots, callSnapshot}, nil},
	}, func(s *scene, c row) {
		s.there(c.volume)
		if c.prepare != nil {
			c.prepare(s)
		}
		err := s.snapshot()
		if all := s.cinder.Snapshots(); len(all) > 0 {
			c.err = strings.ReplaceAll(c.err, "{s}", all[0].ID)
		}
		s.want(err, c.code, c.err)
		if c.calls != nil {
			s.wantCalls(c.calls...)
		}
		s.wantSnapshots(c.want...)
	})
}

// TestSnapshotOpts: the snapshot that is asked for, as Cinder reads it.
func TestSnapshotOpts(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{})
		s.want(s.snapshot(), 0, "")
		want := map[string]any{"snapshot": map[string]any{"volume_id": id, "name": snapName, "force": true, "metadata": map[string]any{
			"flex-provisioner.io/snapshot-uid": snapUID, "flex-provisioner.io/snapshot": "team-a/nightly",
			"flex-provisioner.io/storage-class": "silver", "flex-provisioner.io/cluster": "kubernetes"}}}
		var got map[string]any
		body := s.cinder.Calls().Of(callSnapshot)[0].Body
		if json.Unmarshal([]byte(body), &got) != nil || !reflect.DeepEqual(got, want) {
			s.t.Errorf("it sent\n%s\nwant\n%v", body, want)
		}
	})
}

// TestSnapshotFailsBefore: nothing is asked for by a name that is not the provisioner's, without a connection, or elsewhere.
func TestSnapshotFailsBefore(t *testing.T) {
	play(t, func(s *scene) {
		s.ask("nightly")
		s.want(s.flow().Snapshot(s.context(), pvOf(id)), 64, `the snapshot's name "nightly" is not snap-UID`)
		s.connect = errors.New("no route")
		s.want(s.snapshot(), 1, "log in: no answer from cinder: no route")
		s.want(s.deleteSnapshot(snapName), 1, "log in: no answer from cinder: no route")
		s.connect = nil
		s.ask(snapName)
		elsewhere := pvOf(id)
		elsewhere.Annotations[AnnProject] = "p-2"
		const err = "volume " + name + ` was made in project "p-2"…`
		s.want(s.flow().Snapshot(s.context(), elsewhere), 1, err)
		s.want(s.flow().DeleteSnapshot(s.context(), elsewhere), 1, err)
		s.wantCalls()
	})
}

// TestDeleteSnapshot: by each handle and from each state.
func TestDeleteSnapshot(t *testing.T) {
	type row struct {
		handle  string
		prepare func(*scene)
		code    int
		err     string
		calls   []string
		left    []string
	}
	const foreign = "22222222222222222222222222222222"
	removed := []string{callSnapshots, callDeleteSnapshot, callSnapshots, callSnapshots}
	removedByID := []string{callShowSnapshot, callDeleteSnapshot, callShowSnapshot, callShowSnapshot}
	ours := func(status string) func(*scene) {
		return func(s *scene) { s.taken(fake.Snapshot{Status: status}) }
	}
	playEach(t, map[string]row{
		"ours":        {snapName, ours("available"), 0, "", removed, nil},
		"never was":   {snapName, nil, 0, "", []string{callSnapshots}, nil},
		"failed":      {snapName, ours("error"), 0, "", removed, nil},
		"of two runs": {snapName, func(s *scene) { s.taken(fake.Snapshot{}); s.taken(fake.Snapshot{ID: otherID}) }, 0, "", []string{callSnapshots, callDeleteSnapshot, callDeleteSnapshot, callSnapshots, callSnapshots}, nil},
		"being backed up": {snapName, ours("backing-up"), 75, "gave up before the pod's deadline of 60 s while cinder snapshot " + snapID +
			" is backing-up: context deadline exceeded", nil, []string{"backing-up"}},
		"not ours": {snapName, func(s *scene) { s.byHand(fake.Snapshot{ID: snapID, Name: snapName}) }, 64, "cinder snapshot " + snapID + " is called…",
			[]string{callSnapshots}, []string{"available"}},
		"error_deleting": {snapName, ours("error_deleting"), 1, "cinder snapshot " + snapID + " is error_deleting, and cinder does not say why",
			[]string{callSnapshots, callMessages}, []string{"error_deleting"}},
		"fails": {snapName, func(s *scene) { s.taken(fake.Snapshot{}); s.cinder.Fail(fake.SnapshotNotDeleted) }, 1,
			"cinder snapshot " + snapID + " is error_deleting: delete snapshot:Snapshot failed to delete.",
			[]string{callSnapshots, callDeleteSnapshot, callSnapshots, callSnapshots, callMessages}, []string{"error_deleting"}},
		"busy": {snapName, func(s *scene) { s.taken(fake.Snapshot{}); s.cinder.Fail(fake.SnapshotBusy) }, 75,
			"cinder snapshot " + snapID + " is available: delete snapshot:Snapshot is busy.; it is removed after what depends on it, such as volumes that were restored from it",
			[]string{callSnapshots, callDeleteSnapshot, callSnapshots, callSnapshots, callMessages}, []string{"available"}},
		"refused": {snapName, func(s *scene) { s.taken(fake.Snapshot{}); refuse(callDeleteSnapshot, 400, "part of a group")(s) }, 75,
			"delete snapshot " + snapID + ": part of a group (HTTP 400)", []string{callSnapshots, callDeleteSnapshot}, []string{"available"}},
		"by its ID":         {snapID, func(s *scene) { s.byHand(fake.Snapshot{ID: snapID, Name: "nightly"}) }, 0, "", removedByID, nil},
		"by its ID, in big": {strings.ToUpper(snapID), func(s *scene) { s.byHand(fake.Snapshot{ID: snapID}) }, 0, "", removedByID, nil},
		"by a gone ID":      {snapID, nil, 0, "", []string{callShowSnapshot}, nil},
		"by its name":       {"nightly", func(s *scene) { s.byHand(fake.Snapshot{ID: snapID, Name: "nightly"}) }, 0, "", removed, nil},
		"by the name of two": {"nightly", func(s *scene) {
			s.byHand(fake.Snapshot{ID: snapID, Name: "nightly"})
			s.byHand(fake.Snapshot{ID: otherID, Name: "nightly"})
		}, 64, "2 cinder snapshots are called nightly, such as " + otherID + " and " + snapID + "; use an ID as snapshotHandle, or rename the others",
			[]string{callSnapshots}, []string{"available", "available"}},
		"another VolumeSnapshot's": {snapID, func(s *scene) {
			s.byHand(fake.Snapshot{ID: snapID, Name: snapName, Metadata: map[string]string{metaSnapshotUID: snapUID, metaSnapshot: "team-b/weekly"}})
		}, 64, "cinder snapshot " + snapID + ` was taken for the VolumeSnapshot "team-b/weekly", so it is not removed by another name; let the content have the snapshotHandle "` + snapName + `"`,
			[]string{callShowSnapshot}, []string{"available"}},
		"of another project": {snapID, func(s *scene) { s.byHand(fake.Snapshot{ID: snapID, Project: foreign}) }, 64, "cinder snapshot " + snapID + ` is in project "` + foreign +
			`", but the credentials are for "` + project + `"; correct them`, []string{callShowSnapshot}, []string{"available"}},
		"not found": {snapName, refuse(callSnapshots, 403, "no"), 64, "find snapshots " + snapName + ": no (HTTP 403)", []string{callSnapshots}, nil},
	}, func(s *scene, c row) {
		s.there(fake.Volume{})
		if c.prepare != nil {
			c.prepare(s)
		}
		s.want(s.deleteSnapshot(c.handle), c.code, c.err)
		if c.calls != nil {
			s.wantCalls(c.calls...)
		}
		s.wantSnapshots(c.left...)
	})
}

// TestSnapshotSteps: what is done next about a snapshot in each of Cinder's states.
func TestSnapshotSteps(t *testing.T) {
	for _, c := range []struct {
		status           string
		toTake, toDelete step
	}{
		{"creating", wait, wait},
		{"available", done, remove},
		{"backing-up", wait, wait},
		{"restoring", wait, wait},
		{"unmanaging", wait, wait},
		{"deleting", wait, wait},
		{"error", clear, remove},
		{"error_deleting", stop, stop},
	} {
		s := &cinder.Snapshot{Status: c.status}
		if toTake, toDelete := toSnapshot(s), toDeleteSnapshot(s); toTake != c.toTake || toDelete != c.toDelete {
			t.Errorf("%s: steps %d and %d, want %d and %d", c.status, toTake, toDelete, c.toTake, c.toDelete)
		}
	}
	if got := toSnapshot(nil); got != create {
		t.Errorf("no snapshot: step %d, want %d", got, create)
	}
}

// TestRestore: which snapshots become volumes, and why others do not.
func TestRestore(t *testing.T) {
	const origin = "pvc-11111111-2222-4333-8444-555555555555"
	const refused = "restore of snapshot team-a/nightly: "
	type row struct {
		handle   string
		snapshot fake.Snapshot
		change   func(*scene)
		code     int
		err      string
		calls    []string // after the first find
	}
	asked := []string{callSnapshots, callShow}
	ours := fake.Snapshot{Name: snapName, Metadata: map[string]string{metaSnapshotUID: snapUID}}
	with := func(change func(*fake.Snapshot)) fake.Snapshot {
		s := ours
		change(&s)
		return s
	}
	playEach(t, map[string]row{
		"ours":           {handle: snapName, snapshot: ours},
		"by its ID":      {handle: snapID, snapshot: fake.Snapshot{Name: "nightly"}},
		"by its name":    {handle: "nightly", snapshot: fake.Snapshot{Name: "nightly"}},
		"ours by its ID": {handle: snapID, snapshot: ours},
		"no clones":      {handle: snapName, snapshot: ours, change: func(s *scene) { s.parameters = map[string]string{"smartclone": "false"} }},
		"smaller": {handle: snapName, snapshot: with(func(s *fake.Snapshot) { s.Size = 9 }), code: 64, calls: asked, err: refused +
			"it has 9 GiB, and this claim asks for 10: neither Kubernetes nor a provisioner pod can grow the file system of the restored volume; ask for 9Gi, use volumeMode Block, or copy the data to a larger claim"},
		"smaller device": {handle: snapName, snapshot: with(func(s *fake.Snapshot) { s.Size = 9 }), change: func(s *scene) { s.request.VolumeMode = "Block" }},
		"larger": {handle: snapName, snapshot: with(func(s *fake.Snapshot) { s.Size = 11 }), code: 64, calls: asked,
			err: refused + "it has 11 GiB, and a restored volume cannot be smaller; ask for at least that"},
		"another type": {handle: snapName, snapshot: ours, change: func(s *scene) { s.parameters = map[string]string{"type": "fast"} }, code: 64, calls: asked,
			err: refused + `it is of volume type "__DEFAULT__", and this class makes fast; use a class of the same type`},
		"another zone": {handle: snapName, snapshot: ours, change: func(s *scene) { s.parameters = map[string]string{"availability": "west"} }, code: 64, calls: asked,
			err: refused + `it is in availability zone "nova", and this class makes volumes in west; use a class of the same zone`},
		"another namespace": {handle: snapName, snapshot: ours, change: func(s *scene) { s.request.Source.Namespace = "team-b" }, code: 64,
			err: "restore of snapshot team-b/nightly: only what is in the same namespace can be the source, and this claim is in team-a"},
		"not ready": {handle: snapName, snapshot: with(func(s *fake.Snapshot) { s.Status = "creating" }), code: 75, calls: asked, err: refused + "cinder snapshot " + snapID + " is creating"},
		"failed":    {handle: snapName, snapshot: with(func(s *fake.Snapshot) { s.Status = "error" }), code: 64, calls: asked[:1], err: refused + "cinder snapshot " + snapID + " is error"},
		"unknown": {handle: "snap-" + otherID, snapshot: ours, code: 64, calls: asked[:1],
			err: refused + "cinder has no snapshot snap-" + otherID + " in this project; was it deleted there?"},
		"unknown by its ID": {handle: otherID, snapshot: ours, code: 64, calls: []string{callShowSnapshot},
			err: refused + "cinder has no snapshot " + otherID + " in this project; was it deleted there?"},
		"not ours": {handle: snapName, snapshot: fake.Snapshot{Name: snapName}, code: 64, calls: asked[:1], err: "cinder snapshot " + snapID + " is called…"},
		"of two": {handle: "nightly", snapshot: fake.Snapshot{Name: "nightly"}, code: 64, calls: asked[:1],
			change: func(s *scene) { s.cinder.AddSnapshot(fake.Snapshot{ID: otherID, Name: "nightly", Volume: id}) }, err: "2 cinder snapshots are called nightly…"},
	}, func(s *scene, c row) {
		s.cinder.AddVolume(fake.Volume{ID: id, Name: origin, Size: 10, Project: project})
		c.snapshot.ID, c.snapshot.Volume = snapID, id
		s.cinder.AddSnapshot(c.snapshot)
		s.request.Source = &contract.Source{Namespace: "team-a", Name: "nightly", Snapshot: c.handle}
		if c.change != nil {
			c.change(s)
		}
		made, err := s.provision()
		s.want(err, c.code, c.err)
		if err != nil {
			s.wantCalls(append([]string{callFind}, c.calls...)...)
			s.wantVolumes("available")
			return
		}
		v := s.cinder.Volume(name)
		if v.SourceSnapshot != snapID || v.SourceVolume != "" || made.Annotations[AnnCloneOf] != "" {
			s.t.Errorf("its snapshot is %q, its source %q, its annotations %v", v.SourceSnapshot, v.SourceVolume, made.Annotations)
		}
	}, fake.WithType(fake.Type{Name: "fast"}), fake.WithZones("nova", "west"))
}

// TestDeleteWithSnapshots: a volume that has snapshots keeps its connection, and is removed after them.
func TestDeleteWithSnapshots(t *testing.T) {
	const beginning = "volume has snapshots, and is removed after them; delete their VolumeSnapshots, and what has none by openstack volume snapshot delete: "
	type row struct {
		volume fake.Volume
		calls  []string
	}
	playEach(t, map[string]row{
		"in use":    {fake.Volume{Status: "in-use", Attachments: attached()}, []string{callFind, callSnapshots}},
		"available": {fake.Volume{}, []string{callFind, callDelete, callSnapshots}},
	}, func(s *scene, c row) {
		s.there(c.volume)
		s.taken(fake.Snapshot{})
		s.want(s.delete(pvOf(id)), 75, beginning+`"`+snapName+`" (`+snapID+`)`)
		s.wantCalls(c.calls...)
		s.want(s.deleteSnapshot(snapName), 0, "")
		s.request.Claim.UID, s.request.Snapshot = claimUID, nil
		s.want(s.delete(pvOf(id)), 0, "")
		s.wantVolumes()
	})
	play(t, func(s *scene) {
		s.there(fake.Volume{})
		for range 5 {
			s.byHand(fake.Snapshot{Name: "n\n" + strings.Repeat("x", 250)})
		}
		s.want(s.delete(pvOf(id)), 75, beginning+`"n\nxxx…`)
		if got := text(s.delete(pvOf(id))); !strings.HasSuffix(got, ", and 2 more") {
			s.t.Errorf("it ended with %s", got)
		}
	})
}

package flow

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestDelete: what a delete and an undo ask for. They leave nothing, and once more they find nothing.
func TestDelete(t *testing.T) {
	type row struct {
		undo         bool
		calls, again []string
	}
	playEach(t, map[string]row{
		"delete": {false, []string{callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind, callFind}, []string{callFind, callShow}},
		"undo":   {true, []string{callFind, callConnect, callSnapshots, callTerminate, callDetach, callDelete, callFind, callFind}, []string{callFind}},
	}, func(s *scene, c row) {
		pv := s.made()
		if c.undo {
			pv = nil
		}
		s.want(s.delete(pv), 0, "")
		s.wantCalls(c.calls...)
		s.wantVolumes()
		s.wantSecrets(0)
		s.want(s.delete(pv), 0, "")
		s.wantCalls(c.again...)
	})
}

// TestDeleteFails: an error ends the run, and nothing is asked for after it.
func TestDeleteFails(t *testing.T) {
	const other = "dae46dbd-d712-48fe-af72-de0872d24141"
	setup := func(s *scene) {
		s.there(fake.Volume{})
		s.made()
	}
	tryEach(t, setup, func(s *scene) error { return s.delete(s.pv) }, map[string]trial{
		"nodes not known": {func(s *scene) { s.refuseKubernetes("GET nodes") }, 1, "list nodes: unknown (get nodes): it shows whether one still uses the volume", nil},
		"no connection":   {func(s *scene) { s.connect = errors.New("no route") }, 1, "log in: no answer from cinder: no route", nil},
		"not found":       {refuse(callFind, 403, "not you"), 64, "find " + name + ": not you (HTTP 403)", []string{callFind}},
		"not terminated":  {refuse(callTerminate, 500, "broken"), 1, "terminate_connection " + id + ": broken (HTTP 500)", []string{callFind, callSnapshots, callTerminate}},
		"not detached":    {refuse(callDetach, 500, "broken"), 1, "detach " + id + ": broken (HTTP 500)", []string{callFind, callSnapshots, callTerminate, callDetach}},
		"not deleted":     {refuse(callDelete, 500, "broken"), 1, "delete " + id + ": broken (HTTP 500)", []string{callFind, callSnapshots, callTerminate, callDetach, callDelete}},
		"secret not removed": {func(s *scene) { s.refuseKubernetes("DELETE secrets") }, 1, "delete secret flex-provisioners/" + name + ": no",
			[]string{callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind, callFind}},
		"another's": {func(s *scene) { s.cinder.AddVolume(fake.Volume{ID: other, Name: name, Project: project}) }, 64,
			"cinder volume " + other + " is called…", []string{callFind}},
	})
}

// TestInUse: what a node still uses is not touched, whoever asks.
func TestInUse(t *testing.T) {
	const used = "volume " + name + " is still in use on node node-a, node-b"
	play(t, func(s *scene) {
		pv := s.made()
		volume := corev1.UniqueVolumeName(cluster.UniqueName(pv.Spec.PersistentVolumeSource))
		for i := range 150 { // more than one page
			s.cluster.AddNode(fmt.Sprint("other-", i))
		}
		s.cluster.AddNode("node-a", volume)
		s.cluster.AddNode("node-b", volume)
		s.want(s.delete(pv), 75, used)
		s.wantCalls()
		s.want(s.delete(nil), 75, used)
		s.wantCalls(callFind, callConnect)
		s.cluster.SetNodes(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-c"}, Status: corev1.NodeStatus{
			VolumesAttached: []corev1.AttachedVolume{{Name: volume}}}})
		s.want(s.delete(pv), 75, "volume "+name+" is still in use on node node-c")
		s.wantVolumes("in-use *")
		s.wantSecrets(1)
	})
}

// TestUndoBlind: where an undo cannot see whether a node uses the volume, it removes nothing. It is no refusal: the volume is there.
func TestUndoBlind(t *testing.T) {
	play(t, func(s *scene) {
		s.made()
		s.cinder.SetConnection(fake.NFS())
		s.want(s.delete(nil), 1, "see which nodes use cinder volume "+s.cinder.Volume(name).ID+": cinder volume…")
		s.wantCalls(callFind, callConnect)
		s.wantVolumes("in-use *")
	})
}

// TestPlace: with credentials for another project or region every volume seems to be gone.
func TestPlace(t *testing.T) {
	setup := func(s *scene) {
		s.region = "west"
		s.made()
	}
	at := func(annotations map[string]string) func(*scene) {
		return func(s *scene) { s.pv.Annotations = annotations }
	}
	calls := []string{callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind, callFind}
	tryEach(t, setup, func(s *scene) error { return s.delete(s.pv) }, map[string]trial{
		"none": {at(nil), 0, "", calls},
		"same": {at(map[string]string{AnnProject: project, AnnRegion: "west"}), 0, "", calls},
		"another project": {at(map[string]string{AnnProject: "their project"}), 1, "volume " + name + ` was made in project "their project", but the ` +
			`credentials are now for "` + project + `"; correct them, or annotation cinder.openstack.org/project-id`, nil},
		"another region": {at(map[string]string{AnnProject: project, AnnRegion: "east"}), 1, "volume " + name + ` was made in region "east", but the ` +
			`credentials are now for "west"; correct them, or annotation cinder.openstack.org/region`, nil},
	})
	play(t, func(s *scene) {
		s.made()
		s.request.Location = "project=22222222222222222222222222222222"
		s.want(s.delete(nil), 1, "an earlier attempt worked in project=22222222222222222222222222222222…")
		s.wantCalls()
		s.request.Location = "project=" + project
		s.want(s.delete(nil), 0, "")
	})
}

// TestRenamed: a volume that somebody gave another name is found by the ID that the PersistentVolume has.
func TestRenamed(t *testing.T) {
	const other = "dae46dbd-d712-48fe-af72-de0872d24141"
	renamed := fake.Volume{ID: other, Name: "the database", Project: project, Metadata: map[string]string{metaClaimUID: claimUID}}
	setup := func(s *scene) {
		s.cinder.AddVolume(renamed)
		s.pv = pvOf(other)
	}
	with := func(id string) func(*scene) {
		return func(s *scene) { s.pv = pvOf(id) }
	}
	tryEach(t, setup, func(s *scene) error { return s.delete(s.pv) }, map[string]trial{
		"renamed":   {nil, 0, "", []string{callFind, callShow, callDelete, callFind, callShow, callFind, callShow}},
		"no ID":     {with(""), 0, "", []string{callFind}},
		"no such":   {with(id), 0, "", []string{callFind, callShow}},
		"no UUID":   {with("../volumes"), 1, "volume " + name + `: annotation cinder.openstack.org/volume-id "../volumes" is not…`, []string{callFind}},
		"not shown": {refuse(callShow, 500, "broken"), 1, "show " + other + ": broken (HTTP 500)", []string{callFind, callShow}},
		"another's": {func(s *scene) { s.request.Claim.UID = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c12" }, 1,
			"cinder volume " + other + ` is called "the database" but has not…`, []string{callFind, callShow}},
	})
	// A run that has to end says of it what it says of others.
	play(t, func(s *scene) {
		renamed.Status = "deleting"
		setup(s)
		s.want(s.delete(s.pv), 1, "gave up before the pod's deadline of 60 s while cinder volume "+other+" is deleting: context deadline exceeded")
	})
}

// TestRemove: how a volume is removed, by its state. What fails leaves it.
func TestRemove(t *testing.T) {
	begun := fake.Attachment{Status: "attaching"}
	ours := attached()[0]
	of := func(status string, attachments ...fake.Attachment) fake.Volume {
		return fake.Volume{Status: status, Attachments: attachments}
	}
	type row struct {
		volume  fake.Volume
		prepare func(*scene)
		err     string
		calls   []string
	}
	playEach(t, map[string]row{
		"available":         {of("available"), nil, "", []string{callFind, callDelete, callFind, callFind}},
		"reserved":          {of("attaching"), nil, "", []string{callFind, callSnapshots, callTerminate, callUnreserve, callDelete, callFind, callFind}},
		"not unreserved":    {of("attaching"), refuse(callUnreserve, 500, "busy"), "unreserve " + id + ": busy (HTTP 500)", []string{callFind, callSnapshots, callTerminate, callUnreserve}},
		"stuck":             {of("maintenance"), nil, "cinder volume " + id + " is maintenance, and cinder does not say why", []string{callFind, callMessages}},
		"begun":             {of("in-use", begun), nil, "", []string{callFind, callBegun, callForget, callFind, callDelete, callFind}},
		"begun, not listed": {of("in-use", begun), refuse(callBegun, 500, "busy"), "attachments " + id + ": busy (HTTP 500)", []string{callFind, callBegun}},
		"begun beside ours": {of("in-use", ours, begun), refuse(callTerminate, 409, "busy"), "",
			[]string{callFind, callSnapshots, callTerminate, callBegun, callForget, callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind}},
		"in use, no record": {of("available"), func(s *scene) { s.cinder.SetStatus(id, "in-use") }, "",
			[]string{callFind, callBegun, callDetach, callFind, callDelete, callFind}},
		"in use by a hidden one": {of("in-use", fake.Attachment{Status: "reserved", Instance: "s-1"}), nil,
			"cinder volume " + id + " is in-use by an attachment that is not ours; detach it there", []string{callFind, callBegun}},
		"a job of Cinder's": {of("in-use", ours), func(s *scene) { s.cinder.Job(id, "backing-up") }, "",
			[]string{callFind, callFind, callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind}},
		"refused, nothing begun": {of("in-use", ours), refuse(callTerminate, 409, "busy"), "terminate_connection " + id + ": busy (HTTP 409)",
			[]string{callFind, callSnapshots, callTerminate, callBegun}},
		"still at it": {of("in-use", ours), refuse(callDelete, 400, "busy"), "",
			[]string{callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind, callDelete, callFind}},
		"begun, not seen": {of("available", begun), refuse(callDelete, 400, "busy"), "",
			[]string{callFind, callDelete, callSnapshots, callBegun, callForget, callFind, callDelete, callFind}},
		"not deleted": {of("available"), refuse(callDelete, 400, "busy"), "delete " + id + ": busy (HTTP 400)", []string{callFind, callDelete, callSnapshots, callBegun}},
		"busy": {of("available"), func(s *scene) { s.cinder.Fail(fake.VolumeBusy) }, "cinder volume " + id + " is available again after the request to remove it; " +
			"it is removed after what depends on it, such as clones", []string{callFind, callDelete, callFind, callFind}},
		"fails": {of("available"), func(s *scene) { s.cinder.Fail(fake.NotDeleted) }, "cinder volume " + id + " is error_deleting, and cinder does not say why",
			[]string{callFind, callDelete, callFind, callFind, callMessages}},
	}, func(s *scene, c row) {
		s.there(c.volume)
		if c.prepare != nil {
			c.prepare(s)
		}
		code, left := 0, 0
		if c.err != "" {
			code, left = 1, 1
		}
		if strings.Contains(c.err, "depends on it") {
			code = 75
		}
		s.want(s.delete(pvOf(id)), code, c.err)
		s.wantCalls(c.calls...)
		if got := s.cinder.Volumes(); len(got) != left {
			s.t.Errorf("there is\n%s", got)
		}
	})
}

// TestForgottenHost: an array that forgot the host answers every end of the connection with an error. A volume that is not attached
// is removed all the same, and an attached one after some attempts, since the array may only be down.
func TestForgottenHost(t *testing.T) {
	const down = "terminate_connection " + id + ": unknown host (HTTP 500)"
	type row struct {
		volume  fake.Volume
		attempt int
		err     string
		calls   []string
	}
	held := fake.Volume{Status: "in-use", Attachments: attached()}
	playEach(t, map[string]row{
		"reserved":      {fake.Volume{Status: "attaching"}, 0, "", []string{callFind, callSnapshots, callTerminate, callUnreserve, callDelete, callFind, callFind}},
		"first attempt": {held, 0, down, []string{callFind, callSnapshots, callTerminate}},
		"third attempt": {held, 2, down, []string{callFind, callSnapshots, callTerminate}},
		"a later one":   {held, 3, "", []string{callFind, callSnapshots, callTerminate, callDetach, callDelete, callFind, callFind}},
	}, func(s *scene, c row) {
		s.there(c.volume)
		s.request.Attempt = c.attempt
		s.cinder.Fault(fake.On(callTerminate).Always().Refuse(500, "unknown host"))
		code := 0
		if c.err != "" {
			code = 1
		}
		s.want(s.delete(pvOf(id)), code, c.err)
		s.wantCalls(c.calls...)
	})
}

// TestAllRemoved: where two runs did not see each other, both volumes are removed.
func TestAllRemoved(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{Status: "in-use", Attachments: attached()})
		s.there(fake.Volume{ID: "dae46dbd-d712-48fe-af72-de0872d24141"})
		s.want(s.delete(&corev1.PersistentVolume{}), 0, "")
		s.wantVolumes()
	})
}

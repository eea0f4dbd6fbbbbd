package flow

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestDelete: what a delete and an undo ask for. They leave nothing, and once more they find nothing.
func TestDelete(t *testing.T) {
	for name, c := range map[string]struct {
		undo  bool
		calls []string
	}{
		"delete": {false, []string{callFind, callTerminate, callDetach, callDelete, callFind, callFind}},
		"undo":   {true, []string{callFind, callConnect, callTerminate, callDetach, callDelete, callFind, callFind}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				pv := s.made()
				again := []string{callFind, callShow}
				if c.undo {
					pv, again = nil, []string{callFind}
				}
				s.want(s.delete(pv), 0, "")
				s.wantCalls(c.calls...)
				s.wantVolumes()
				s.wantSecrets(0)
				s.want(s.delete(pv), 0, "")
				s.wantCalls(again...)
			})
		})
	}
}

// TestDeleteFails: an error ends the run, and nothing is asked for after it.
func TestDeleteFails(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*scene)
		code    int
		err     string
		calls   []string
	}{
		"nodes not known": {func(s *scene) { s.refuseKubernetes("GET nodes") }, 1, "list nodes: unknown (get nodes): it shows whether one still uses the volume", nil},
		"no connection":   {func(s *scene) { s.connect = errors.New("no route") }, 1, "log in: no answer from cinder: no route", nil},
		"not found": {func(s *scene) { s.cinder.Fault(fake.On(callFind).Refuse(http.StatusForbidden, "not you")) }, 64, "find pvc-" + claimUID + ": not you (HTTP 403)",
			[]string{callFind}},
		"not terminated": {func(s *scene) {
			s.cinder.Fault(fake.On(callTerminate).Refuse(http.StatusInternalServerError, "broken"))
		}, 1,
			callTerminate[3:] + " " + id + ": broken (HTTP 500)", []string{callFind, callTerminate}},
		"not detached": {func(s *scene) { s.cinder.Fault(fake.On(callDetach).Refuse(http.StatusInternalServerError, "broken")) }, 1,
			"detach " + id + ": broken (HTTP 500)", []string{callFind, callTerminate, callDetach}},
		"not deleted": {func(s *scene) { s.cinder.Fault(fake.On(callDelete).Refuse(http.StatusInternalServerError, "broken")) }, 1,
			"delete " + id + ": broken (HTTP 500)", []string{callFind, callTerminate, callDetach, callDelete}},
		"secret not removed": {func(s *scene) { s.refuseKubernetes("DELETE secrets") }, 1, "delete secret flex-provisioners/pvc-" + claimUID + ": no",
			[]string{callFind, callTerminate, callDetach, callDelete, callFind, callFind}},
		"another's": {func(s *scene) {
			s.cinder.AddVolume(fake.Volume{ID: "dae46dbd-d712-48fe-af72-de0872d24141", Name: "pvc-" + claimUID, Project: project})
		}, 64, "cinder volume dae46dbd-d712-48fe-af72-de0872d24141 is called…", []string{callFind}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.there(fake.Volume{})
				pv := s.made()
				c.prepare(s)
				s.want(s.delete(pv), c.code, c.err)
				s.wantCalls(c.calls...)
			})
		})
	}
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
	for name, c := range map[string]struct {
		annotations map[string]string
		err         string
	}{
		"none": {nil, ""},
		"same": {map[string]string{AnnProject: project, AnnRegion: "west"}, ""},
		"another project": {map[string]string{AnnProject: "their project"},
			`was made in project "their project", but the credentials are now for "` + project + `"; correct them, or annotation cinder.openstack.org/project-id`},
		"another region": {map[string]string{AnnProject: project, AnnRegion: "east"},
			`was made in region "east", but the credentials are now for "west"; correct them, or annotation cinder.openstack.org/region`},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.region = "west"
				pv, code, err := s.made(), 0, ""
				pv.Annotations = c.annotations
				if c.err != "" {
					code, err = 1, "volume pvc-"+claimUID+" "+c.err
				}
				s.want(s.delete(pv), code, err)
				if code != 0 {
					s.wantCalls()
				}
			})
		})
	}
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
	for name, c := range map[string]struct {
		annotation string
		prepare    func(*scene)
		code       int
		err        string
		calls      []string
	}{
		"renamed": {other, nil, 0, "", []string{callFind, callShow, callDelete, callFind, callShow, callFind, callShow}},
		"no ID":   {"", nil, 0, "", []string{callFind}},
		"no such": {id, nil, 0, "", []string{callFind, callShow}},
		"no UUID": {"../volumes", nil, 1, `volume pvc-` + claimUID + `: annotation cinder.openstack.org/volume-id "../volumes" is not…`, []string{callFind}},
		"not shown": {other, func(s *scene) { s.cinder.Fault(fake.On(callShow).Refuse(http.StatusInternalServerError, "broken")) }, 1,
			"show " + other + ": broken (HTTP 500)", []string{callFind, callShow}},
		"another's": {other, func(s *scene) { s.request.Claim.UID = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c12" }, 1,
			"cinder volume " + other + ` is called "the database" but has not…`, []string{callFind, callShow}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.cinder.AddVolume(fake.Volume{ID: other, Name: "the database", Project: project, Metadata: map[string]string{metaClaimUID: claimUID}})
				if c.prepare != nil {
					c.prepare(s)
				}
				pv := &corev1.PersistentVolume{}
				pv.Name, pv.Annotations = "pvc-"+claimUID, map[string]string{AnnVolumeID: c.annotation}
				s.want(s.delete(pv), c.code, c.err)
				s.wantCalls(c.calls...)
				if removed := len(s.cinder.Volumes()) == 0; removed != (name == "renamed") {
					t.Errorf("there is\n%s", s.cinder.State())
				}
			})
		})
	}
	// A run that has to end says of it what it says of others.
	play(t, func(s *scene) {
		s.cinder.AddVolume(fake.Volume{ID: other, Name: "the database", Status: "deleting", Project: project, Metadata: map[string]string{metaClaimUID: claimUID}})
		pv := &corev1.PersistentVolume{}
		pv.Annotations = map[string]string{AnnVolumeID: other}
		s.want(s.delete(pv), 1, "gave up before the pod's deadline of 60 s while cinder volume "+other+" is deleting: context deadline exceeded")
	})
}

// TestRemove: how a volume is removed, by its state.
func TestRemove(t *testing.T) {
	begun := []fake.Attachment{{Status: "attaching"}}
	failed := func(call string, status int) func(*scene) {
		return func(s *scene) { s.cinder.Fault(fake.On(call).Refuse(status, "busy")) }
	}
	for name, c := range map[string]struct {
		volume  fake.Volume
		prepare func(*scene)
		err     string
		calls   []string
	}{
		"available": {fake.Volume{}, nil, "", []string{callFind, callDelete, callFind, callFind}},
		"reserved":  {fake.Volume{Status: "attaching"}, nil, "", []string{callFind, callTerminate, callUnreserve, callDelete, callFind, callFind}},
		"not unreserved": {fake.Volume{Status: "attaching"}, failed(callUnreserve, 500), "unreserve " + id + ": busy (HTTP 500)",
			[]string{callFind, callTerminate, callUnreserve}},
		"fails": {fake.Volume{}, func(s *scene) { s.cinder.FailDelete() }, "cinder volume " + id + " is error_deleting, and cinder does not say why",
			[]string{callFind, callDelete, callFind, callFind, callMessages}},
		"stuck": {fake.Volume{Status: "maintenance"}, nil, "cinder volume " + id + " is maintenance, and cinder does not say why", []string{callFind, callMessages}},
		"begun": {fake.Volume{Status: "in-use", Attachments: begun}, nil, "", []string{callFind, callBegun, callForget, callFind, callDelete, callFind, callFind}},
		"begun, not listed": {fake.Volume{Status: "in-use", Attachments: begun}, failed(callBegun, 500), "attachments " + id + ": busy (HTTP 500)",
			[]string{callFind, callBegun}},
		"begun beside ours": {fake.Volume{Status: "in-use", Attachments: append(attached(), begun...)}, failed(callTerminate, 409), "",
			[]string{callFind, callTerminate, callBegun, callForget, callFind, callTerminate, callDetach, callDelete, callFind, callFind}},
		"refused, nothing begun": {fake.Volume{Status: "in-use", Attachments: attached()}, failed(callTerminate, 409), "terminate_connection " + id + ": busy (HTTP 409)",
			[]string{callFind, callTerminate, callBegun}},
		"still at it": {fake.Volume{Status: "in-use", Attachments: attached()}, failed(callDelete, 400), "",
			[]string{callFind, callTerminate, callDetach, callDelete, callFind, callDelete, callFind, callFind}},
		"begun, not seen": {fake.Volume{Attachments: begun}, failed(callDelete, 400), "",
			[]string{callFind, callDelete, callBegun, callForget, callFind, callDelete, callFind, callFind}},
		"not deleted": {fake.Volume{}, failed(callDelete, 400), "delete " + id + ": busy (HTTP 400)", []string{callFind, callDelete, callBegun}},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				s.there(c.volume)
				if c.prepare != nil {
					c.prepare(s)
				}
				pv := &corev1.PersistentVolume{}
				pv.Name, pv.Annotations = "pvc-"+claimUID, map[string]string{AnnVolumeID: id}
				code := 0
				if c.err != "" {
					code = 1
				}
				s.want(s.delete(pv), code, c.err)
				s.wantCalls(c.calls...)
				if left := len(s.cinder.Volumes()); left != code {
					t.Errorf("there is\n%s", s.cinder.State())
				}
			})
		})
	}
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

// TestNotDeleted: one that Cinder does not delete is waited for until the pod's time is over.
func TestNotDeleted(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{})
		err := s.delete(nil)
		s.want(err, 1, "gave up before the pod's deadline of 60 s while cinder volume "+id+" is deleting: context deadline exceeded")
		if got := strings.Join(s.cinder.Calls().Ops(), " "); strings.Count(got, callDelete) != 1 || sdk.ExitCode(err) != 1 {
			t.Errorf("calls %s", got)
		}
	}, fake.WithPace(fake.After(time.Hour)))
}

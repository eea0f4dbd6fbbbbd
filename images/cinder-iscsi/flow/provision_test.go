package flow

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestProvision: what a provision asks for, and what it leaves.
func TestProvision(t *testing.T) {
	play(t, func(s *scene) {
		made, err := s.provision()
		s.want(err, 0, "")
		s.wantCalls(callFind, callCreate, callFind, callFind, callReserve, callConnect, callAttach)
		s.wantVolumes("in-use *")
		s.wantSecrets(1)
		v := s.cinder.Volume(name)
		if a := v.Attachments[0]; a.Host != host || a.Device != "/kubernetes/"+name || a.Mode != "rw" || a.Instance != "" {
			t.Errorf("attachment %+v", a)
		}
		secret := s.cluster.Secrets()[name]
		if secret.Type != cluster.SecretType || string(secret.Data["node.session.auth.username"]) != v.CHAPUser {
			t.Errorf("secret of type %s with %d keys", secret.Type, len(secret.Data))
		}
		annotations := map[string]string{AnnVolumeID: v.ID, AnnProject: project}
		if made.Capacity.String() != "10Gi" || !maps.Equal(made.Annotations, annotations) || made.NodeAffinity != nil || made.Source.ISCSI == nil {
			t.Errorf("volume %+v", made)
		}
		if s.location != "project="+project {
			t.Errorf("location %s", s.location)
		}
		if lines := strings.Count(s.log.String(), "volume="+name+" took=0s ok=true\n"); lines != 7 {
			t.Errorf("of 7 calls the log has\n%s", s.log.String())
		}
		// Once more in the same place, as when the PersistentVolume could not be made.
		s.request.Location = s.location
		again, err := s.provision()
		s.want(err, 0, "")
		s.wantCalls(callFind, callConnect)
		s.wantSecrets(1)
		if !reflect.DeepEqual(again.Source, made.Source) || again.Capacity.Cmp(made.Capacity) != 0 || !maps.Equal(again.Annotations, annotations) {
			t.Errorf("now it is\n%+v, and was\n%+v", again, made)
		}
	})
}

// TestReadOnly: what Cinder exports for reading only is attached so. Other kinds of volumes have no Secret. Where there is a
// region, it is part of the location and of the PersistentVolume.
func TestReadOnly(t *testing.T) {
	play(t, func(s *scene) {
		s.region = "west"
		pv := s.made()
		if mode := s.cinder.Volume(name).Attachments[0].Mode; mode != "ro" || pv.Spec.FC == nil {
			t.Errorf("mode %s, source %+v", mode, pv.Spec)
		}
		if pv.Annotations[AnnRegion] != "west" || s.location != "project="+project+"&region=west" {
			t.Errorf("annotations %v, location %s", pv.Annotations, s.location)
		}
		s.wantSecrets(0)
	}, fake.WithConnection(fake.Raw("fibre_channel", map[string]any{"target_wwn": "500a098280feeba5", "target_lun": 1, "access_mode": "ro"})))
}

// TestRefusedBefore: what can be no volume, or is none of this place, costs Cinder nothing.
func TestRefusedBefore(t *testing.T) {
	run := func(s *scene) error {
		_, err := s.provision()
		return err
	}
	tryEach(t, func(*scene) {}, run, map[string]trial{
		"size": {func(s *scene) { s.request.SizeBytes = 0 }, 64, "a size of 0 bytes is not supported; ask for 1 byte to 2147483647 GiB", nil},
		"no initiators": {func(s *scene) { s.parameters = map[string]string{"initiatorMode": "node"} }, 64,
			"parameter initiatorMode is node, but no property has nodes; list them in initiators, in wwpns and wwnns, or in nqns", nil},
		"ports of no node": {func(s *scene) {
			s.properties = map[string]string{"wwpns": "10000090fa534185", "wwnns": "20000090fa534185"}
		}, 64,
			"property wwpns has names without a node, and an array would take all of them for one host; write node=WWPN and node=WWNN, and set parameter initiatorMode to node", nil},
		"native Ceph images": {func(s *scene) {
			s.parameters = map[string]string{"rbd": "native"}
			s.cluster.SetVersion("1", "31+")
		}, 64, "parameter rbd is native, but nodes of Kubernetes 1.31+ mount no such volumes: the last release that did was 1.30; set it to ceph-csi", nil},
		"topologies": {func(s *scene) { s.request.AllowedTopologies = []map[string][]string{{"zone": nil}} }, 64,
			"allowedTopologies have no values; name cinder's availability zones", nil},
		"no connection": {func(s *scene) { s.connect = errors.New("no route") }, 1, "log in: no answer from cinder: no route", nil},
		"another place": {func(s *scene) { s.request.Location = "project=22222222222222222222222222222222" }, 1,
			"an earlier attempt worked in project=22222222222222222222222222222222, but the credentials are now for project=" + project +
				"; give back those of the former until nothing of volume " + name + " is left there", nil},
		"location not written": {func(s *scene) { s.setLocation = errors.New("disk full") }, 1, "disk full", nil},
		"not found":            {refuse(callFind, 403, "not you"), 64, "find " + name + ": not you (HTTP 403)", []string{callFind}},
		"not created":          {refuse(callCreate, 403, "not you"), 64, "create " + name + ": not you (HTTP 403)", []string{callFind, callCreate}},
	})
}

// TestProvisionFails: an error of a call ends the run, and of what is there nothing is removed but what this run made for a claim
// that cannot be.
func TestProvisionFails(t *testing.T) {
	full := []string{callFind, callCreate, callFind, callFind, callReserve, callConnect, callAttach}
	type row struct{ call, left string }
	playEach(t, map[string]row{
		"create": {callCreate, ""}, "reserve": {callReserve, "available"}, "connect": {callConnect, "attaching"}, "attach": {callAttach, "attaching"},
	}, func(s *scene, c row) {
		refuse(c.call, 500, "broken")(s)
		_, err := s.provision()
		if sdk.ExitCode(err) != 1 || !strings.HasSuffix(text(err), ": broken (HTTP 500)") {
			s.t.Errorf("error %v", err)
		}
		s.wantCalls(full[:slices.Index(full, c.call)+1]...)
		if c.left != "" {
			s.wantVolumes(c.left)
		}
		s.wantSecrets(0)
		if lines := strings.Count(s.log.String(), "ok=false"); lines != 1 {
			s.t.Errorf("the log has %d failures\n%s", lines, s.log.String())
		}
	})
	play(t, func(s *scene) {
		s.refuseKubernetes("POST secrets")
		_, err := s.provision()
		s.want(err, 1, "create secret flex-provisioners/"+name+": no")
		s.wantVolumes("in-use *")
	})
}

// TestPromise: a refusal says that nothing was made. What this run made is removed, and what an earlier one made is not.
func TestPromise(t *testing.T) {
	const refused = `has a connection of type "nfs": the volume is a file on an export that holds every project's volumes, and mounting it would show them all; use a volume type with another backend`
	begun := []string{callFind, callCreate, callFind, callFind, callReserve, callConnect}
	removed := append(slices.Clone(begun), callFind, callSnapshots, callTerminate, callUnreserve, callDelete, callFind, callFind)
	type row struct {
		prepare func(*scene)
		code    int
		after   string
		calls   []string
		left    []string
	}
	playEach(t, map[string]row{
		"made":           {func(*scene) {}, 64, "", removed, nil},
		"an earlier one": {func(s *scene) { s.there(fake.Volume{}) }, 1, "", []string{callFind, callReserve, callConnect}, []string{"attaching"}},
		"not removed": {refuse(callDelete, 403, "not you"), 1, "; and the volume that was made for it could not be removed: delete " + id + ": not you (HTTP 403)",
			removed[:len(removed)-2], []string{"available"}},
		"secret not removed": {func(s *scene) { s.refuseKubernetes("DELETE secrets") }, 1,
			"; and its secret could not be removed: delete secret flex-provisioners/" + name + ": no", removed, nil},
	}, func(s *scene, c row) {
		c.prepare(s)
		_, err := s.provision()
		made := id
		if calls := s.cinder.Calls().Of(callConnect); len(calls) == 1 {
			made = calls[0].ID
		}
		s.want(err, c.code, "cinder volume "+made+" "+refused+strings.ReplaceAll(c.after, id, made))
		s.wantCalls(c.calls...)
		s.wantVolumes(c.left...)
		s.wantSecrets(0)
	}, fake.WithConnection(fake.NFS()))
}

// TestBesideAnother: another run made a volume for the claim while this one did. What that one made is used, and a refusal does not
// remove it.
func TestBesideAnother(t *testing.T) {
	another := func(s *scene) {
		s.cinder.Fault(fake.On(callFind).Nth(2).Do(func(fake.Call) { s.there(fake.Volume{}) }))
	}
	play(t, func(s *scene) {
		another(s)
		s.made()
		if v := s.cinder.Volume(id); v.Status != "in-use" {
			t.Errorf("it is %s", v.Status)
		}
	})
	play(t, func(s *scene) {
		another(s)
		_, err := s.provision()
		s.want(err, 1, "cinder volume "+id+" has a connection of type…")
		if v := s.cinder.Volume(id); v.Status != "attaching" {
			t.Errorf("it is %s", v.Status)
		}
	}, fake.WithConnection(fake.NFS()))
}

// TestOthersDropped: of a claim's volumes one is kept, and those are removed that nothing uses.
func TestOthersDropped(t *testing.T) {
	const other = "dae46dbd-d712-48fe-af72-de0872d24141"
	for status, left := range map[string][]string{
		"available": {"in-use *"}, "error": {"in-use *"}, "creating": {"in-use *", "creating"}, "attaching": {"in-use *", "attaching"},
	} {
		play(t, func(s *scene) {
			s.there(fake.Volume{Status: "in-use", Attachments: attached()})
			s.there(fake.Volume{ID: other, Status: status})
			s.made()
			s.cinder.Settle()
			s.wantVolumes(left...)
		})
	}
	play(t, func(s *scene) {
		s.there(fake.Volume{Status: "in-use", Attachments: attached()})
		s.there(fake.Volume{ID: other})
		refuse(callDelete, 500, "broken")(s)
		_, err := s.provision()
		s.want(err, 1, "delete "+other+": broken (HTTP 500)")
		s.wantCalls(callFind, callDelete)
	})
}

// TestAskedOnce: a database that lags behind shows no volume at first, and that makes no second one.
func TestAskedOnce(t *testing.T) {
	play(t, func(s *scene) {
		s.cinder.Fault(fake.On(callFind).Nth(2).Answer(200, "application/json", `{"volumes": []}`))
		s.made()
		if len(s.cinder.Volumes()) != 1 {
			t.Errorf("there is\n%s", s.cinder.Volumes())
		}
	})
}

// TestFailedVolume: of a volume that this run made, Cinder's reason is told. One of an earlier run has been told, and is replaced.
func TestFailedVolume(t *testing.T) {
	play(t, func(s *scene) {
		s.cinder.Fail(fake.NoBackend)
		_, err := s.provision()
		v := s.cinder.Volume(name)
		s.want(err, 1, "cinder volume "+v.ID+" is error: schedule allocate volume:Could not find any available weighted backend.")
		s.wantCalls(callFind, callCreate, callFind, callFind, callMessages)
		made := s.made()
		if made.Annotations[AnnVolumeID] == v.ID {
			t.Error("the failed volume was used")
		}
		s.wantVolumes("in-use *")
	})
	play(t, func(s *scene) {
		s.there(fake.Volume{Status: "error"})
		refuse(callDelete, 500, "broken")(s)
		_, err := s.provision()
		s.want(err, 1, "delete "+id+": broken (HTTP 500)")
		s.wantCalls(callFind, callDelete)
	})
}

// TestUnfit: what a volume is that was made, or that an earlier run made, and cannot be used.
func TestUnfit(t *testing.T) {
	asking := func(size int64, zones ...string) func(*scene) {
		return func(s *scene) {
			s.request.SizeBytes = size * gib
			if len(zones) > 0 {
				s.request.AllowedTopologies = []map[string][]string{{"zone": zones}}
			}
		}
	}
	type row struct {
		volume  fake.Volume
		prepare func(*scene)
		err     string
	}
	playEach(t, map[string]row{
		"as large":  {fake.Volume{Size: 11}, asking(11), ""},
		"larger":    {fake.Volume{Size: 12}, asking(10), ""},
		"too small": {fake.Volume{Size: 10}, asking(11), "cinder volume " + id + " has 10 GiB, less than the 11 GiB that the claim asks for; extend it"},
		"encrypted": {fake.Volume{Encrypted: true}, asking(10), "cinder volume " + id + " is encrypted: only a host with the key could read it; use a volume type without encryption"},
		"no zones":  {fake.Volume{Zone: "north"}, asking(10), ""},
		"in a zone": {fake.Volume{Zone: "west"}, asking(10, "east", "west"), ""},
		"elsewhere": {fake.Volume{Zone: "north"}, asking(10, "east", "west"),
			"cinder volume " + id + ` is in availability zone "north", but allowedTopologies has only east, west; correct cinder's zones or the class`},
		"another's": {fake.Volume{Status: "in-use"}, asking(10), "cinder volume " + id + ` is attached to host "node-1"; detach it there`},
	}, func(s *scene, c row) {
		s.there(c.volume)
		c.prepare(s)
		made, err := s.provision()
		code := 0
		if c.err != "" {
			code = 1
		}
		s.want(err, code, c.err)
		if err == nil && (made.NodeAffinity != nil) != (s.request.AllowedTopologies != nil) {
			s.t.Errorf("affinity %v", made.NodeAffinity)
		}
	})
}

// TestForgotten: what is left of an attachment that Cinder began and did not end is removed first.
func TestForgotten(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{Status: "in-use", Attachments: []fake.Attachment{{Status: "attaching"}}})
		s.made()
		s.wantVolumes("in-use *")
	})
	// What a job of Cinder's leaves that gave it the status back has no attachment at all.
	play(t, func(s *scene) {
		s.there(fake.Volume{})
		s.cinder.SetStatus(id, "in-use")
		s.made()
		s.wantVolumes("in-use *")
	})
	for call, calls := range map[string][]string{callBegun: {callFind, callBegun}, callForget: {callFind, callBegun, callForget}} {
		play(t, func(s *scene) {
			s.there(fake.Volume{Status: "in-use", Attachments: []fake.Attachment{{Status: "attaching"}}})
			refuse(call, 500, "broken")(s)
			_, err := s.provision()
			if sdk.ExitCode(err) != 1 || !strings.HasSuffix(text(err), ": broken (HTTP 500)") {
				t.Errorf("%s: error %v", call, err)
			}
			s.wantCalls(calls...)
		})
	}
}

// TestDeadline: a run that has to end says what it waited for. What this run did to the volume counts, and not what it saw before
// that.
func TestDeadline(t *testing.T) {
	hang := func(call string, there ...fake.Volume) func(*scene) {
		return func(s *scene) {
			s.cinder.Fault(fake.On(call).Hang())
			for _, v := range there {
				s.there(v)
			}
		}
	}
	there := func(s *scene) { s.there(fake.Volume{Status: "in-use", Attachments: attached()}) }
	provision := func(s *scene) error {
		_, err := s.provision()
		return err
	}
	type row struct {
		prepare func(*scene)
		run     func(*scene) error
		code    int
		state   string
	}
	playEach(t, map[string]row{
		"creating":  {func(*scene) {}, provision, 1, "cinder volume {id} is creating: context deadline exceeded"},
		"connect":   {hang(callConnect, fake.Volume{}), provision, 1, "cinder volume {id} is reserved: …"},
		"attach":    {hang(callAttach, fake.Volume{}), provision, 1, "cinder volume {id} is reserved: …"},
		"no volume": {hang(callCreate), provision, 1, "there is no cinder volume " + name + ": …"},
		"deleting":  {there, func(s *scene) error { return s.delete(pvOf(id)) }, 1, "cinder volume {id} is deleting: context deadline exceeded"},
		// An expansion that goes on when the pod has to end has not failed.
		"extending": {there, func(s *scene) error { return s.expand(pvOf(id), 20) }, 75, "cinder volume {id} is extending: context deadline exceeded"},
	}, func(s *scene, c row) {
		c.prepare(s)
		err := c.run(s)
		id := ""
		if all := s.cinder.Volumes(); len(all) > 0 {
			id = all[0].ID
		}
		if n := s.cinder.Calls().Count(callDelete); n > 1 {
			s.t.Errorf("it asked %d times to delete it", n)
		}
		s.want(err, c.code, "gave up before the pod's deadline of 60 s while "+strings.ReplaceAll(c.state, "{id}", id))
	}, fake.WithPace(time.Hour))
}

package main

import (
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

const hostileID = "dae46dbd-d712-48fe-af72-de0872d24140"

// volumeJSON is a volume of the claim, as a server shows it that is not Cinder.
func volumeJSON(id, status, attachment string, size int) string {
	attachments := ""
	if attachment != "" {
		attachments = fmt.Sprintf(`{"attachment_id": %q, "device": "/kubernetes/%s"}`, attachment, name)
	}
	return fmt.Sprintf(`{"id": %q, "name": %q, "status": %q, "size": %d, "attachments": [%s], "metadata": {"flex-provisioner.io/claim-uid": %q}}`,
		id, name, status, size, attachments, strings.TrimPrefix(name, "pvc-"))
}

// deleteWith deletes the claim's volume, whose PersistentVolume has the annotation.
func (s *stage) deleteWith(annotation, value string) result {
	s.t.Helper()
	pv := sdktest.Skeleton(s.request(contract.Provision))
	pv.Annotations = map[string]string{annotation: value}
	return s.run(s.t.Context(), s.request(contract.Delete), pv)
}

// A server's answer is nothing to make a URL or a size from. Nothing but looking is done then.
func TestHostileVolumes(t *testing.T) {
	t.Parallel()
	const end = "; is the endpoint right?"
	for _, c := range []struct{ volume, want string }{
		{volumeJSON("../../x", "available", "", 10), `cinder's answer: volume ID "../../x" is not a UUID`},
		{volumeJSON("", "available", "", 10), `cinder's answer: volume ID "" is not a UUID`},
		{volumeJSON(hostileID+"; reboot", "available", "", 10), `cinder's answer: volume ID "` + hostileID + `; reboot" is not a UUID`},
		{volumeJSON(hostileID, "in-use", "a/../b", 10), "cinder's answer: volume " + hostileID + `: attachment ID "a/../b" is not a UUID`},
		{volumeJSON(hostileID, "in use\nby", "", 10), "cinder's answer: volume " + hostileID + `: status "in use\nby" is not of 1 to 64 small letters, '_' and '-'`},
		{volumeJSON(hostileID, "available", "", -1), "cinder's answer: volume " + hostileID + ": size -1 GiB is not between 0 and 2147483647"},
		{volumeJSON(hostileID, "available", "", 1<<40), "cinder's answer: volume " + hostileID + ": size 1099511627776 GiB is not between 0 and 2147483647"},
	} {
		s := newStage(t)
		s.cinder.Fault(fake.On("GET /volumes/detail").Always().Answer(200, "application/json", `{"volumes": [`+c.volume+`]}`))
		s.provision(t.Context()).want(t, 1, c.want+end)
		s.delete(t.Context()).want(t, 1, c.want+end)
		for _, call := range s.cinder.Calls() {
			if call.Op != "GET /volumes/detail" {
				t.Errorf("%s: %s %s", c.want, call.Method, call.Path)
			}
		}
	}
}

// The answer to create is no refusal of it: the volume may be there, and is found by its name.
func TestHostileCreate(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cinder.Fault(fake.On("POST /volumes").AfterEffect().Answer(202, "application/json", `{"volume": {"id": "../x", "status": "creating"}}`))
	s.provision(t.Context()).want(t, 1, `cinder's answer: volume ID "../x" is not a UUID; is the endpoint right?`)
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()
}

// A PersistentVolume whose ID is none is not taken for one whose storage is gone.
func TestHostileID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"../../x", "x", hostileID + "/action", hostileID + "?all_tenants=1"} {
		s := newStage(t)
		s.deleteWith(flow.AnnVolumeID, id).want(t, 1, fmt.Sprintf("volume %s: annotation %s %q is not a UUID; correct it", name, flow.AnnVolumeID, id))
	}
}

// An answer that shows nothing is not the news that the volume is gone.
func TestHostileShow(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, `{"volume": {}}`, `{"volume": null}`} {
		s := newStage(t)
		s.cinder.Fault(fake.On("GET /volumes/{id}").Always().Answer(200, "application/json", body))
		s.deleteWith(flow.AnnVolumeID, hostileID).want(t, 1, `cinder's answer: volume ID "" is not a UUID; is the endpoint right?`)
	}
}

// An attachment that Cinder began is removed by an ID, which is a part of a URL.
func TestHostileAttachment(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	s.cinder.BeginAttach(name)
	id := s.cinder.Volume(name).ID
	s.cinder.Fault(fake.On("GET /attachments/detail").Always().Answer(200, "application/json",
		fmt.Sprintf(`{"attachments": [{"id": "../volumes/x", "volume_id": %q, "status": "attaching"}]}`, id)))
	s.delete(t.Context()).want(t, 1, "cinder's answer: volume "+id+`: attachment ID "../volumes/x" is not a UUID; is the endpoint right?`)
}

// A connection that would mislead a node leads to no volume, and to a message that is one line.
func TestHostileConnection(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithConnection(fake.Raw("iscsi", map[string]any{"target_portal": "10.0.0.1:3260\n--help\x1b[2J", "target_iqn": "iqn.2010-10.org:a", "target_lun": 1})))
	got := s.provision(t.Context())
	want := `: target_portal "10.0.0.1:3260\n--help\x1b[2J" is not an IP address without a zone, with a port or without: the kubelet finds a disk by the address`
	if got.code != 64 || !strings.HasSuffix(got.message, want) || strings.Contains(got.log, "\x1b") {
		t.Errorf("ended with %d: %s\n%s", got.code, got.message, got.log)
	}
	s.wantNothing()
}

// A server may say a lot, on many lines. What is said after it is still there.
func TestHostileText(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cinder.Fault(fake.On("GET /volumes/detail").Always().Refuse(500, "a\x1b[2Jb \u202e "+strings.Repeat("word ", 10000)+"\nnode: ready"))
	s.provision(t.Context()).want(t, 1, "find "+name+": a [2Jb "+strings.Repeat("word ", 78)+"... (HTTP 500)")
}

// The name of a volume is anybody's in the project, and the list has a line for each.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	metadata := maps.Clone(ourMetadata)
	metadata["flex-provisioner.io/cluster"] = "kubernetes"
	s.cinder.AddVolume(fake.Volume{ID: hostileID, Name: "x\nstorage y rm -rf /", Metadata: metadata, Project: project})
	s.cinder.AddVolume(fake.Volume{Name: "a", Metadata: map[string]string{"flex-provisioner.io/claim-uid": "a\nstorage b", "flex-provisioner.io/cluster": "kubernetes"}, Project: project})
	request := sdktest.List(nil)
	pod := s.pod(request, nil)
	storage, err := provisioner{root: pod.Root, log: io.Discard}.List(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if want := (sdk.Storage{Name: name, Remove: "openstack volume delete " + hostileID}); len(storage) != 1 || storage[0] != want {
		t.Errorf("got %q, want %q", storage, want)
	}
}

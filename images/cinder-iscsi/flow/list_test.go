package flow

import (
	"errors"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestList: the volumes that this cluster made, whatever they are called by now, and nobody else's. The command ends the connection
// before it removes the attachment, and leaves what somebody else uses.
func TestList(t *testing.T) {
	const connect = "openstack --os-volume-api-version 3.27 volume attachment set --host k8s-8b6e7a3e0d9f4a539d --ip 127.0.0.1 " +
		"--platform x86_64 --os-type linux --initiator iqn.2026-01.io.flex-provisioner:" + name + " {attachment} && " +
		"openstack --os-volume-api-version 3.27 volume attachment delete {attachment} && openstack volume delete {id}"
	type row struct {
		volume       fake.Volume
		cluster, uid string
		listed       bool
		remove       string
	}
	playEach(t, map[string]row{
		"available":    {fake.Volume{}, "blue", claimUID, true, "openstack volume delete {id}"},
		"attached":     {fake.Volume{Status: "in-use", Attachments: attached()}, "blue", claimUID, true, connect},
		"reserved":     {fake.Volume{Status: "attaching"}, "blue", claimUID, true, "openstack volume set --state available --detached {id} && openstack volume delete {id}"},
		"used by hand": {fake.Volume{Status: "in-use"}, "blue", claimUID, true, ""},
		"green's":      {fake.Volume{}, "green", claimUID, false, ""},
		"nobody's":     {fake.Volume{}, "blue", "no UID", false, ""},
	}, func(s *scene, c row) {
		s.properties = map[string]string{"cluster": "blue"}
		c.volume.Name, c.volume.Project = "the database", project
		c.volume.Metadata = map[string]string{metaCluster: c.cluster, metaClaimUID: c.uid}
		v := s.cinder.AddVolume(c.volume)
		list, err := s.flow().List(t.Context())
		s.want(err, 0, "")
		want := strings.ReplaceAll(c.remove, "{id}", v.ID)
		if len(v.Attachments) > 0 {
			want = strings.ReplaceAll(want, "{attachment}", v.Attachments[0].ID)
		}
		if (len(list) == 1) != c.listed || c.listed && (list[0].Name != name || list[0].Remove != want) {
			s.t.Errorf("it lists %v, want %s", list, want)
		}
		s.wantCalls(callFind)
	})
}

func TestListFails(t *testing.T) {
	run := func(s *scene) error {
		_, err := s.flow().List(s.context())
		return err
	}
	tryEach(t, func(*scene) {}, run, map[string]trial{
		"find":    {refuse(callFind, 500, "broken"), 1, "find: broken (HTTP 500)", []string{callFind}},
		"connect": {func(s *scene) { s.connect = errors.New("no route") }, 1, "log in: no answer from cinder: no route", nil},
	})
}

package flow

import (
	"errors"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestList: the volumes that this cluster made, whatever they are called by now, and nobody else's.
func TestList(t *testing.T) {
	play(t, func(s *scene) {
		s.properties = map[string]string{"cluster": "blue"}
		for _, v := range []struct{ cluster, uid, status string }{
			{"blue", claimUID, "in-use"}, {"green", claimUID, "available"}, {"blue", "no UID", "available"}, {"blue", "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c12", "available"},
		} {
			s.cinder.AddVolume(fake.Volume{ID: map[string]string{"in-use": id}[v.status], Name: "the database", Status: v.status, Project: project,
				Metadata: map[string]string{metaCluster: v.cluster, metaClaimUID: v.uid}})
		}
		second := s.cinder.Volumes()[3].ID
		list, err := s.flow().List(t.Context())
		s.want(err, 0, "")
		got := map[string]string{}
		for _, one := range list {
			got[one.Name] = one.Remove
		}
		if len(list) != 2 || got[name] != "openstack volume set --state available --detached "+id+" && openstack volume delete "+id ||
			got["pvc-8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c12"] != "openstack volume delete "+second {
			t.Errorf("it lists %v", list)
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

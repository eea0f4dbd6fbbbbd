package main

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

func TestClone(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithType(fake.Type{Name: "fast"}))
	s.provision(t.Context()).want(t, 0, "")
	allowed := map[string]string{"smartclone": "true"}
	source := contract.Source{Namespace: "team-a", Name: "data", VolumeName: name}
	s.clone("0c7f", allowed, source, 12<<30).want(t, 0, "")
	made := s.cinder.Volume("pvc-0c7f")
	if made.SourceVolume != s.cinder.Volume(name).ID || made.Size != 12 || made.Status != "in-use" {
		t.Errorf("clone %+v", made)
	}
	before := len(s.cinder.Volumes())
	other := source
	other.VolumeName = "pvc-of-nfs"
	unbound := source
	unbound.VolumeName = ""
	for _, c := range []struct {
		parameters map[string]string
		source     contract.Source
		size       int64
		err        string
	}{
		{allowed, source, 1 << 30, "clone of claim team-a/data: it has 10 GiB, and a clone cannot be smaller; ask for at least that"},
		{map[string]string{"smartclone": "true", "type": "fast"}, source, 10 << 30,
			`clone of claim team-a/data: it is of volume type "__DEFAULT__", and this class makes fast; use a class of the same type`},
		{allowed, other, 10 << 30, "clone of claim team-a/data: its volume pvc-of-nfs is not one of this provisioner in the same cloud and project"},
		{allowed, unbound, 10 << 30, "clone of claim team-a/data: it is not bound yet"},
		{map[string]string{"smartclone": "false"}, source, 10 << 30,
			`clone of claim team-a/data: class silver does not allow clones; ask its administrator for parameter smartclone: "true"`},
	} {
		s.clone("0c80", c.parameters, c.source, c.size).want(t, 64, c.err)
	}
	if after := len(s.cinder.Volumes()); after != before {
		t.Errorf("refused clones made %d volumes", after-before)
	}
}

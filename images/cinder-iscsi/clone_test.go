package main

import (
	"io"
	"log/slog"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// flow is a request's, as the provisioner makes it.
func (s *stage) flow(request sdk.Request) *flow.Flow {
	s.t.Helper()
	pod := s.pod(request, nil)
	f, _, err := provisioner{root: pod.Root, log: io.Discard}.flow(request)
	if err != nil {
		s.t.Fatal(err)
	}
	f.Log = slog.New(slog.DiscardHandler)
	return f
}

func wantError(t testing.TB, err error, code int, text string) {
	t.Helper()
	if err == nil || err.Error() != text || sdk.ExitCode(err) != code {
		t.Errorf("got %d: %v\nwant %d: %s", sdk.ExitCode(err), err, code, text)
	}
}

func TestClone(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithType(fake.Type{Name: "fast"}))
	s.provision(t.Context()).want(t, 0, "")
	allowed := map[string]string{"smartclone": "true"}
	source := flow.Source{Namespace: "team-a", Name: "data", VolumeName: name}
	if err := s.clone(allowed, source, 12<<30); err != nil {
		t.Fatal(err)
	}
	made := s.cinder.Volume("pvc-0c7f")
	if made.SourceVolume != s.cinder.Volume(name).ID || made.Size != 12 || made.Status != "in-use" {
		t.Errorf("clone %+v", made)
	}
	before := len(s.cinder.Volumes())
	other := source
	other.VolumeName = "pvc-of-nfs"
	unbound := source
	unbound.VolumeName = ""
	again := func(uid string, parameters map[string]string, source flow.Source, size int64) error {
		request := s.request("provision")
		request.VolumeName, request.Claim.UID, request.SizeBytes, request.Parameters = "pvc-"+uid, uid, size, parameters
		f := s.flow(request)
		f.Source = &source
		_, err := f.Provision(t.Context())
		return err
	}
	for _, c := range []struct {
		parameters map[string]string
		source     flow.Source
		size       int64
		err        string
	}{
		{allowed, source, 1 << 30, "clone of claim team-a/data: it has 10 GiB, and a clone cannot be smaller; ask for at least that"},
		{map[string]string{"smartclone": "true", "type": "fast"}, source, 10 << 30,
			"clone of claim team-a/data: it is of volume type __DEFAULT__, and this class makes fast; use a class of the same type"},
		{allowed, other, 10 << 30, "clone of claim team-a/data: its volume pvc-of-nfs is not one of this provisioner in the same cloud and project"},
		{allowed, unbound, 10 << 30, "clone of claim team-a/data: it is not bound yet"},
		{map[string]string{"smartclone": "false"}, source, 10 << 30,
			`clone of claim team-a/data: class silver does not allow clones; ask its administrator for parameter smartclone: "true"`},
	} {
		wantError(t, again("0c80", c.parameters, c.source, c.size), 64, c.err)
	}
	if after := len(s.cinder.Volumes()); after != before {
		t.Errorf("refused clones made %d volumes", after-before)
	}
}

package flow

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestExpand: what an expansion asks for; once more it asks for nothing.
func TestExpand(t *testing.T) {
	play(t, func(s *scene) {
		pv := s.made()
		s.request.SizeBytes = 19*gib + 1 // the storage has at least what was asked for
		s.want(s.flow().Expand(s.context(), pv), 0, "")
		s.wantCalls(callFind, callExtend, callFind, callFind)
		for _, size := range []int64{20, 15} {
			s.want(s.expand(pv, size), 0, "")
			s.wantCalls(callFind)
		}
		if v := s.cinder.Volume(name); v.Size != 20 || v.Status != "in-use" {
			t.Errorf("it has %d GiB and is %s", v.Size, v.Status)
		}
	})
}

// TestExpandFails: code 1 says that the volume is not and will not be so large, and 75 that nobody knows.
func TestExpandFails(t *testing.T) {
	const extend = "extend " + id + ": "
	away := func(s *scene) { s.region, s.pv = "west", pvOf(id) }
	inUse := func(s *scene) {
		away(s)
		s.pv.Annotations[AnnRegion] = "west"
		s.there(fake.Volume{Status: "in-use", Attachments: attached()})
	}
	run := func(s *scene) error { return s.expand(s.pv, 20) }
	tryEach(t, inUse, run, map[string]trial{
		// What Cinder says of the volume is settled.
		"the driver fails": {func(s *scene) { s.cinder.Fail(fake.NotExtended) }, 1,
			"cinder volume " + id + " is error_extending with 10 GiB, not 20: extend volume:Volume Driver failed to extend volume.",
			[]string{callFind, callExtend, callFind, callFind, callMessages}},
		"no room": {func(s *scene) { s.cinder.Fail(fake.NoRoom) }, 1,
			"cinder volume " + id + " is in-use with 10 GiB, not 20: extend volume:Could not find any available weighted backend.",
			[]string{callFind, callExtend, callFind, callFind, callMessages}},
		"failed before": {func(s *scene) { s.cinder.SetStatus(id, "error_extending") }, 1,
			"cinder volume " + id + " is error_extending with 10 GiB, not 20: cinder does not say why", []string{callFind, callMessages}},
		"over quota": {func(s *scene) { s.cinder.SetQuota(project, fake.Quota{Volumes: 10, Gigabytes: 15}) }, 1,
			extend + "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 10G, quota is 15G and 10G has been consumed. (HTTP 413)",
			[]string{callFind, callExtend}},
		// So is an answer that says no to the request, and not one that came from a Cinder that is not well, or that was lost.
		"400":  {refuse(callExtend, 400, "no"), 1, extend + "no (HTTP 400)", []string{callFind, callExtend}},
		"403":  {refuse(callExtend, 403, "no"), 64, extend + "no (HTTP 403)", []string{callFind, callExtend}},
		"499":  {refuse(callExtend, 499, "no"), 64, extend + "no (HTTP 499)", []string{callFind, callExtend}},
		"302":  {refuse(callExtend, 302, "no"), 75, extend + "no (HTTP 302)", []string{callFind, callExtend}},
		"500":  {refuse(callExtend, 500, "no"), 75, extend + "no (HTTP 500)", []string{callFind, callExtend}},
		"busy": {refuse(callExtend, 429, "no"), 75, extend + "no (HTTP 429)", []string{callFind, callExtend}},
		"lost": {func(s *scene) { s.cinder.Fault(fake.On(callExtend).Close()) }, 75, extend + "no answer from cinder: …", []string{callFind, callExtend}},
		// A refusal promises that nothing was made. It stands where this run has asked for nothing.
		"before it asks": {refuse(callFind, 403, "no"), 64, "find " + name + ": no (HTTP 403)", []string{callFind}},
		"after it asked": {func(s *scene) { s.cinder.Fault(fake.On(callFind).Nth(2).Refuse(403, "no")) }, 75, "find " + name + ": no (HTTP 403)",
			[]string{callFind, callExtend, callFind}},
		"another place": {func(s *scene) { s.region = "east" }, 75,
			"volume " + name + ` was made in region "west", but the credentials are now for "east"; correct them, or annotation cinder.openstack.org/region`, nil},
		"no connection": {func(s *scene) { s.connect = http.ErrHandlerTimeout }, 75, "log in: no answer from cinder: http: Handler timeout", nil},
	})
	tryEach(t, away, run, map[string]trial{
		"somebody deleted it": {nil, 75, "there is no cinder volume " + name + "; did somebody delete it?", []string{callFind, callShow}},
		"not shown":           {refuse(callShow, 500, "no"), 75, "show " + id + ": no (HTTP 500)", []string{callFind, callShow}},
	})
}

// TestExpandNVMe: csi-driver-nvmf finds the disk to expand by the volume's handle, and makes no file system larger.
func TestExpandNVMe(t *testing.T) {
	const larger = "; copy the data to a larger claim"
	raw, mounted := corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem
	type row struct {
		mode   *corev1.PersistentVolumeMode
		handle string
		code   int
		err    string
	}
	playEach(t, map[string]row{
		"raw device": {&raw, id, 0, ""},
		"file system": {&mounted, id, 64, "volume " + name + " has a file system that driver csi.nvmf.com mounts, which neither the driver nor a provisioner pod can " +
			"grow: use volumeMode Block, or copy the data to a larger claim"},
		"no mode": {nil, id, 64, "volume " + name + " has a file system that driver csi.nvmf.com mounts, which neither the driver nor a provisioner pod can " +
			"grow: use volumeMode Block, or copy the data to a larger claim"},
		"another handle": {&raw, name, 64, "volume " + name + " has a volumeHandle that is not the UUID of its disk, by which driver csi.nvmf.com looks for it" + larger},
	}, func(s *scene, c row) {
		s.there(fake.Volume{Status: "in-use", Attachments: attached()})
		pv := pvOf(id)
		pv.Spec.VolumeMode = c.mode
		pv.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: "csi.nvmf.com", VolumeHandle: c.handle, VolumeAttributes: map[string]string{"deviceUUID": id}}
		s.want(s.expand(pv, 20), c.code, c.err)
		if asked := s.cinder.Calls().Count(callExtend) > 0; asked != (c.code == 0) {
			s.t.Errorf("it asked for more: %t", asked)
		}
	})
}

// TestExpandRenamed: a volume that somebody gave another name is expanded as well.
func TestExpandRenamed(t *testing.T) {
	play(t, func(s *scene) {
		s.cinder.AddVolume(fake.Volume{ID: id, Name: "the database", Size: 10, Project: project, Metadata: map[string]string{metaClaimUID: claimUID}})
		s.want(s.expand(pvOf(id), 20), 0, "")
		if v := s.cinder.Volume(id); v.Size != 20 {
			t.Errorf("it has %d GiB", v.Size)
		}
	})
}

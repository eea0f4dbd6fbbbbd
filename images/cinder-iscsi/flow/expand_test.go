package flow

import (
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestExpand: what an expansion asks for; once more it asks for nothing.
func TestExpand(t *testing.T) {
	play(t, func(s *scene) {
		pv := s.made()
		s.request.SizeBytes = 19*gib + 1 // the storage has at least what was asked for
		ctx, cancel := s.context()
		defer cancel()
		s.want(s.flow().Expand(ctx, pv), 0, "")
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
	answer := func(call string, status int) func(*scene) {
		return func(s *scene) { s.cinder.Fault(fake.On(call).Refuse(status, "no")) }
	}
	for name, c := range map[string]struct {
		status  string // none: no volume
		prepare func(*scene)
		code    int
		err     string
		calls   []string
	}{
		// What Cinder says of the volume is settled.
		"the driver fails": {"in-use", func(s *scene) { s.cinder.FailExtend() }, 1,
			"cinder volume " + id + " is error_extending with 10 GiB, not 20: extend volume:Volume Driver failed to extend volume.",
			[]string{callFind, callExtend, callFind, callFind, callMessages}},
		"no room": {"in-use", func(s *scene) { s.cinder.FullExtend() }, 1,
			"cinder volume " + id + " is in-use with 10 GiB, not 20: extend volume:Could not find any available weighted backend.",
			[]string{callFind, callExtend, callFind, callFind, callMessages}},
		"failed before": {"error_extending", nil, 1, "cinder volume " + id + " is error_extending with 10 GiB, not 20: cinder does not say why",
			[]string{callFind, callMessages}},
		"over quota": {"in-use", func(s *scene) { s.cinder.SetQuota(project, fake.Quota{Volumes: 10, Gigabytes: 15}) }, 1,
			extend + "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 10G, quota is 15G and 10G has been consumed. (HTTP 413)",
			[]string{callFind, callExtend}},
		// So is an answer that says no to the request, and not one that came from a Cinder that is not well, or that was lost.
		"400":  {"in-use", answer(callExtend, 400), 1, extend + "no (HTTP 400)", []string{callFind, callExtend}},
		"403":  {"in-use", answer(callExtend, 403), 64, extend + "no (HTTP 403)", []string{callFind, callExtend}},
		"499":  {"in-use", answer(callExtend, 499), 64, extend + "no (HTTP 499)", []string{callFind, callExtend}},
		"302":  {"in-use", answer(callExtend, 302), 75, extend + "no (HTTP 302)", []string{callFind, callExtend}},
		"500":  {"in-use", answer(callExtend, 500), 75, extend + "no (HTTP 500)", []string{callFind, callExtend}},
		"lost": {"in-use", func(s *scene) { s.cinder.Fault(fake.On(callExtend).Close()) }, 75, extend + "no answer from cinder: …", []string{callFind, callExtend}},
		// A refusal promises that nothing was made. It stands where this run has asked for nothing.
		"before it asks": {"in-use", answer(callFind, 403), 64, "find pvc-" + claimUID + ": no (HTTP 403)", []string{callFind}},
		"after it asked": {"in-use", func(s *scene) { s.cinder.Fault(fake.On(callFind).Nth(2).Refuse(403, "no")) }, 75, "find pvc-" + claimUID + ": no (HTTP 403)",
			[]string{callFind, callExtend, callFind}},
		"somebody deleted it": {"", nil, 75, "there is no cinder volume pvc-" + claimUID + "; did somebody delete it?", []string{callFind, callShow}},
		"not shown":           {"", answer(callShow, 500), 75, "show " + id + ": no (HTTP 500)", []string{callFind, callShow}},
		"busy":                {"in-use", answer(callExtend, 429), 75, extend + "no (HTTP 429)", []string{callFind, callExtend}},
		"another place": {"in-use", func(s *scene) { s.region = "east" }, 75,
			`volume pvc-` + claimUID + ` was made in region "west", but the credentials are now for "east"; correct them, or annotation cinder.openstack.org/region`, nil},
		"no connection": {"in-use", func(s *scene) { s.connect = http.ErrHandlerTimeout }, 75, "log in: no answer from cinder: http: Handler timeout", nil},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(s *scene) {
				if c.status != "" {
					s.there(fake.Volume{Status: c.status, Attachments: attached()})
				}
				s.region = "west"
				if c.prepare != nil {
					c.prepare(s)
				}
				pv := &corev1.PersistentVolume{}
				pv.Name, pv.Annotations = "pvc-"+claimUID, map[string]string{AnnVolumeID: id, AnnRegion: "west"}
				s.want(s.expand(pv, 20), c.code, c.err)
				s.wantCalls(c.calls...)
			})
		})
	}
}

// TestExpandRenamed: a volume that somebody gave another name is expanded as well.
func TestExpandRenamed(t *testing.T) {
	play(t, func(s *scene) {
		s.cinder.AddVolume(fake.Volume{ID: id, Name: "the database", Size: 10, Project: project, Metadata: map[string]string{metaClaimUID: claimUID}})
		pv := &corev1.PersistentVolume{}
		pv.Annotations = map[string]string{AnnVolumeID: id}
		s.want(s.expand(pv, 20), 0, "")
		if v := s.cinder.Volume(id); v.Size != 20 {
			t.Errorf("it has %d GiB", v.Size)
		}
	})
}

// TestExpandTakesLonger: an expansion that goes on when the pod has to end has not failed.
func TestExpandTakesLonger(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{Status: "in-use", Attachments: attached()})
		s.want(s.expand(&corev1.PersistentVolume{}, 20), 75, "gave up before the pod's deadline of 60 s while cinder volume "+id+" is extending: context deadline exceeded")
	}, fake.WithPace(fake.After(time.Hour)))
}

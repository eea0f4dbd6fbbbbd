package main

import (
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// hostileWord is a text of a server that would hide the rest of a message, and begin a line of its own in a log. quotedWord
// is what is shown of it.
var (
	hostileWord = "x\nnode: ready\x1b[2J" + strings.Repeat("y", 3000)
	quotedWord  = `"x\nnode: ready\x1b[2J` + strings.Repeat("y", 83) + `"...`
)

// wantPlain checks that neither the message nor the log has what a terminal would obey.
func (r result) wantPlain(t *testing.T) {
	t.Helper()
	if strings.Contains(r.message+r.log, "\x1b") || len(r.log) > 2000 {
		t.Errorf("the log has %d bytes:\n%.500q", len(r.log), r.log)
	}
}

// clone provisions a clone of the claim's volume for another claim.
func (s *stage) clone(parameters map[string]string) result {
	s.t.Helper()
	request := s.request(contract.Provision)
	request.VolumeName, request.Claim.UID = "pvc-0c7f", "0c7f"
	request.Parameters, request.Source = parameters, &contract.Source{Namespace: "team-a", Name: "data", VolumeName: name}
	return s.run(s.t.Context(), request, sdktest.Skeleton(request))
}

// The words that a server says about a volume are quoted, and what to do is still there behind them.
func TestHostileWords(t *testing.T) {
	t.Parallel()
	const uid = "8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11"
	for what, c := range map[string]struct {
		do   func(s *stage) result
		code int
		want string
	}{
		"the name of a volume": {func(s *stage) result {
			s.cinder.Fault(fake.On("GET /volumes/{id}").Always().Answer(200, "application/json",
				asJSON(t, map[string]any{"volume": map[string]any{"id": hostileID, "name": hostileWord, "status": "available", "size": 1}})))
			return s.deleteWith(flow.AnnVolumeID, hostileID)
		}, 1, "cinder volume " + hostileID + " is called " + quotedWord + " but has not flex-provisioner.io/claim-uid=" + uid +
			" in its metadata, so it is not ours; rename it or set the metadata"},
		"its type": {func(s *stage) result {
			s.cinder.Fault(fake.On("GET /volumes/detail").Always().Answer(200, "application/json", asJSON(t, map[string]any{"volumes": []any{map[string]any{
				"id": hostileID, "name": name, "status": "available", "size": 1, "volume_type": hostileWord, "metadata": map[string]string{"flex-provisioner.io/claim-uid": uid}}}})))
			return s.clone(map[string]string{"smartclone": "true", "type": "fast"})
		}, 64, "clone of claim team-a/data: it is of volume type " + quotedWord + ", and this class makes fast; use a class of the same type"},
		"the project of a PersistentVolume": {func(s *stage) result { return s.deleteWith(flow.AnnProject, hostileWord) }, 1,
			"volume " + name + " was made in project " + quotedWord + `, but the credentials are now for "` + project + `"; correct them, or annotation ` + flow.AnnProject},
	} {
		t.Run(what, func(t *testing.T) {
			got := c.do(newStage(t))
			got.want(t, c.code, c.want)
			got.wantPlain(t)
		})
	}
}

// A Keystone's project becomes a part of URLs and an annotation; its catalog becomes a part of a message.
func TestHostileKeystone(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ project, region, end string }{
		"a region": {project, hostileWord, "but public block-storage in region x; correct region or os-endpoint-type, or name Cinder in cinder-endpoint"},
		"a path":   {"../../volumes", "east", `: project ID "../../volumes" is not of 1 to 64 letters, digits, '_' and '-', of which the first is a letter or a digit`},
		"a query":  {"a?all_tenants=1", "east", `: project ID "a?all_tenants=1" is not of 1 to 64 letters, digits, '_' and '-', of which the first is a letter or a digit`},
	} {
		t.Run(what, func(t *testing.T) {
			s := newStage(t, fake.WithKeystone())
			s.useKeystone()
			s.config["cloud.conf"] += "region=east\n"
			if c.project != project {
				s.config["cloud.conf"] += "cinder-endpoint=" + s.cinder.Endpoint() + "/%(project_id)s\n"
			}
			domain := map[string]string{"id": "d", "name": "D"}
			s.cinder.Fault(fake.On("POST /v3/auth/tokens").Always().Answer(201, "application/json", asJSON(t, map[string]any{"token": map[string]any{
				"expires_at": "2099-01-01T00:00:00.000000Z", "project": map[string]any{"id": c.project, "name": "p", "domain": domain},
				"user": map[string]any{"id": "u", "name": "u", "domain": domain},
				"catalog": []any{map[string]any{"type": "block-storage", "name": "cinder", "endpoints": []any{
					map[string]string{"id": "e", "interface": "public", "region": c.region, "region_id": c.region, "url": s.cinder.Endpoint()}}}}}})))
			got := s.provision(t.Context())
			if got.code != 64 || !strings.HasSuffix(got.message, c.end) {
				t.Errorf("ended with %d: %s\nwant the end: %s", got.code, got.message, c.end)
			}
			got.wantPlain(t)
			for _, call := range s.cinder.Calls() {
				if call.Op != "POST /v3/auth/tokens" {
					t.Errorf("asked %s %s", call.Method, call.Path)
				}
			}
			if s.cluster.Volume(name) != nil {
				t.Error("there is a volume")
			}
		})
	}
}

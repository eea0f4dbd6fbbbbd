//go:build integration

package integration

import (
	"testing"
)

// holders are those whose tokens the cases of testdata/volumes.yaml use: a ServiceAccount and the pod that its token is
// bound to.
var holders = map[string]struct{ account, pod string }{
	"foo":             {"foo", "prov-11111111-1111-4111-8111-111111111111-0"},
	"foo deleting":    {"foo", "del-11111111-1111-4111-8111-111111111111-0"},
	"foo without pod": {"foo", ""},
	"hostpath":        {"hostpath", "prov-22222222-2222-4222-8222-222222222222-17"},
	"nfs-subdir":      {"nfs-subdir", "prov-33333333-3333-4333-8333-333333333333-9999"},
	"inline":          {"inline", "prov-44444444-4444-4444-8444-444444444444-1"},
	"wide":            {"wide", "prov-55555555-5555-4555-8555-555555555555-0"},
	"unlisted":        {"unlisted", "prov-66666666-6666-4666-8666-666666666666-0"},
}

type volumeCase struct {
	Name    string         `json:"name"`
	Holder  string         `json:"holder"`
	Volume  string         `json:"volume"`
	Patch   map[string]any `json:"patch"`
	Refused string         `json:"refused"`
	Invalid string         `json:"invalid"`
}

// A provisioner pod creates its own volume, of the kinds that are allowed to its ServiceAccount, and no other.
func TestVolumesByProvisionerPods(t *testing.T) {
	var data struct {
		Volumes map[string]map[string]any `json:"volumes"`
		Cases   []volumeCase              `json:"cases"`
	}
	readData(t, "volumes.yaml", &data)
	tokens := map[string]string{}
	for name, holder := range holders {
		if holder.pod == "" {
			tokens[name] = token(t, "flex-provisioners", holder.account, nil)
			continue
		}
		tokens[name] = token(t, "flex-provisioners", holder.account, provisionerPod(t, holder.pod, holder.account))
	}
	awaitVolumePolicy(t, tokens["wide"], data.Volumes["wide"])
	for _, c := range data.Cases {
		t.Run(c.Name, func(t *testing.T) {
			volume, known := data.Volumes[c.Volume]
			if !known || tokens[c.Holder] == "" {
				t.Fatalf("volume %q or holder %q is unknown", c.Volume, c.Holder)
			}
			err := createVolume(t, tokens[c.Holder], merged(volume, c.Patch))
			if c.Invalid != "" {
				err = judgeInvalid(err, c.Invalid)
			} else {
				err = judge(err, c.Refused)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func createVolume(t *testing.T, token string, volume map[string]any) error {
	t.Helper()
	return send(t, token, request{Verb: "POST", Path: "/api/v1/persistentvolumes", Body: volume})
}

// awaitVolumePolicy waits until the policy and the last lines of the allow-list have reached the API server's admission.
func awaitVolumePolicy(t *testing.T, token string, volume map[string]any) {
	t.Helper()
	good := merged(volume, map[string]any{"spec": map[string]any{"nfs": map[string]any{"server": "10.0.0.1", "path": "/x"}}})
	bad := merged(good, map[string]any{"spec": map[string]any{"persistentVolumeReclaimPolicy": "Recycle"}})
	eventually(t, func() error { return judge(createVolume(t, token, good), "") })
	eventually(t, func() error {
		return judge(createVolume(t, token, bad), "spec.persistentVolumeReclaimPolicy must be Delete or Retain")
	})
}

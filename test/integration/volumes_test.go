//go:build integration

package integration

import (
	"testing"
)

type volumeCase struct {
	Name    string         `json:"name"`
	Holder  string         `json:"holder"`
	Volume  string         `json:"volume"`
	Patch   map[string]any `json:"patch"`
	Refused string         `json:"refused"`
	Invalid string         `json:"invalid"`
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

//go:build integration

package integration

import (
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/request"
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
	return send(t, token, request.Request{Verb: "POST", Path: "/api/v1/persistentvolumes", Body: volume})
}

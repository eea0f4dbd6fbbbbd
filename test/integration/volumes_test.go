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
	Needs   string         `json:"needs"`
	Refused string         `json:"refused"`
	Invalid string         `json:"invalid"`
}

// volumeTable is testdata/volumes.yaml.
type volumeTable struct {
	Volumes map[string]map[string]any `json:"volumes"`
	Cases   []volumeCase              `json:"cases"`
}

func readVolumes(t *testing.T) (table volumeTable) {
	t.Helper()
	readData(t, "volumes.yaml", &table)
	return table
}

func createVolume(t *testing.T, token string, volume map[string]any) error {
	t.Helper()
	return send(t, token, request.Request{Verb: "POST", Path: "/api/v1/persistentvolumes", Body: volume})
}

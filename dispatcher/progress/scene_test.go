package progress

import (
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshottest"
)

const uid = dispatchertest.UID

var noon = dispatchertest.Noon

// a scene is a row of a test: snapshottest.Scene, a name and what is wanted.
type scene struct {
	name          string
	claim, volume string
	pods          []string
	also          string
	want          string
}

func (s scene) snapshot() *snapshot.Snapshot {
	return snapshottest.Scene{Claim: s.claim, Volume: s.volume, Pods: s.pods, Also: s.also}.Snapshot()
}

package progress

import (
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

const uid = dispatchertest.UID

var noon = dispatchertest.Noon

// a scene is a row of a test: observedtest.Scene, a name and what is wanted.
type scene struct {
	name          string
	claim, volume string
	pods          []string
	also          string
	want          string
}

func (s scene) observed() *observed.Claim {
	return observedtest.Scene{Claim: s.claim, Volume: s.volume, Pods: s.pods, Also: s.also}.Observed()
}

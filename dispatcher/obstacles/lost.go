package obstacles

import (
	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// LostRecord says that the volume does not say any more whose it is, what follows, and how to mend it.
func LostRecord(s *observed.Claim) string {
	return podspec.RecordLost(s.Volume) + "; if a pod of this dispatcher made it: " +
		podspec.MendRecord(s.Volume, s.Provisioner)
}

package obstacles

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
)

// LostRecord says that the volume does not say any more whose it is, what follows, and how to mend it. Where the annotations of the record
// are still there, the one that is missing makes the dispatcher's signature valid again.
func LostRecord(s *snapshot.Snapshot) string {
	v := s.Volume
	what := fmt.Sprintf("volume %s of class %s has no annotation %s, so that nobody expands it or removes its storage; if this dispatcher made it: ",
		v.Name, s.ClassName, contract.ProvisionedBy)
	mark := fmt.Sprintf("kubectl annotate pv %s %s=%s", v.Name, contract.ProvisionedBy, s.Provisioner)
	switch {
	case v.Annotations[contract.AnnIdentity] != "":
		return what + mark
	case v.Status.Phase == corev1.VolumeBound:
		return what + fmt.Sprintf("kubectl flex adopt %s --class %s --yes", v.Name, s.ClassName)
	}
	return what + "to remove its storage: kubectl flex release " + v.Name
}

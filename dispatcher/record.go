package dispatcher

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/util"

	"github.com/flex-provisioner/flex-provisioner/configmaps"
	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// volumeIdentity is what finds the volume's storage, and why it cannot be believed, empty where it can. The provisioner wrote
// the volume: its annotation counts where the dispatcher signed it, an administrator vouches for it, or it says nothing
// else than the class does.
func (f *facts) volumeIdentity() (contract.Identity, string) {
	if ref := f.volume.Spec.ClaimRef; ref != nil && len(validation.IsDNS1123Label(ref.Namespace))+len(validation.IsDNS1123Subdomain(ref.Name)) > 0 {
		return contract.Identity{}, fmt.Sprintf("spec.claimRef of volume %s is %.64q/%.64q, which names no claim; correct it", f.volume.Name, ref.Namespace, ref.Name)
	}
	if f.volume.Annotations[contract.AnnIdentity] == "" {
		return f.identity(), ""
	}
	identity, err := podspec.IdentityOf(f.volume)
	if err != nil {
		return identity, fmt.Sprintf("annotation %s of volume %s is no JSON of properties and parameters; to use those of class %s: kubectl annotate pv %[2]s %[1]s-",
			contract.AnnIdentity, f.volume.Name, f.class)
	}
	if faults := configmaps.CheckIdentity(identity.Properties, identity.Parameters); len(faults) > 0 {
		return identity, fmt.Sprintf("annotation %s of volume %s cannot be used: %v; to use the properties and parameters of class %s: kubectl annotate pv %[2]s %[1]s-",
			contract.AnnIdentity, f.volume.Name, faults.ToAggregate(), f.class)
	}
	if podspec.Recorded(f.volume) || podspec.Trusted(f.volume) || sameIdentity(identity, f.identity()) {
		return identity, ""
	}
	return identity, fmt.Sprintf("annotation %[1]s of volume %[2]s is not signed by this dispatcher, and differs from class %[3]s; if it is right: kubectl annotate pv %[2]s --overwrite %[4]s=%[5]s; "+
		"to use the properties and parameters of the class: kubectl annotate pv %[2]s %[1]s-",
		contract.AnnIdentity, f.volume.Name, f.class, contract.AnnRecord, contract.RecordTrusted)
}

// rightRecord are the annotations that a new volume has to have, by the pod of the latest attempt; nil where its own are
// right. An earlier attempt's container may have made the volume: its storage is found by the same identity, or it would have
// been undone.
func (f *facts) rightRecord(provisions []attempt) map[string]string {
	newest, ok := last(provisions)
	if !ok || podspec.Recorded(f.volume) && !podspec.Restored(f.volume) {
		return nil
	}
	request, err := podspec.RequestOf(newest.pod)
	if err != nil {
		return nil // the dispatcher wrote it, so that it can be read
	}
	right, err := podspec.Skeleton(request, podspec.ClassTerms{Provisioner: f.provisioner,
		ConfigStamp: newest.pod.Annotations[contract.AnnConfig], MadeBefore: f.volume.CreationTimestamp.Time})
	if err != nil {
		return nil
	}
	// Its own pod is there, so that it is no copy, whatever the pod wrote and however late it came.
	right.Name, right.Spec.StorageClassName = f.volume.Name, util.GetPersistentVolumeClass(f.volume)
	right.Annotations[contract.AnnRecord] = f.key.Sign(right)
	return right.Annotations
}

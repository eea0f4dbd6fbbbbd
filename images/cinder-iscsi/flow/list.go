package flow

import (
	"context"
	"fmt"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// List lists the volumes of this cluster in the project, with the command that removes each. It changes nothing.
func (f *Flow) List(ctx context.Context) ([]sdk.Storage, error) {
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	defer f.end()
	found, err := f.cinder.All(ctx, map[string]string{metaCluster: f.Properties.Cluster})
	if err != nil {
		return nil, err
	}
	var storage []sdk.Storage
	for _, v := range found {
		// The name is that of the PersistentVolume, even if somebody renamed the Cinder volume.
		uid, err := form.UUID(metaClaimUID, v.Metadata[metaClaimUID])
		if err != nil {
			continue // the volume was not made by this provisioner
		}
		remove := fmt.Sprintf("openstack volume delete %s", v.ID)
		if v.Status != statusAvailable {
			remove = fmt.Sprintf("openstack volume set --state available --detached %s && %s", v.ID, remove)
		}
		storage = append(storage, sdk.Storage{Name: "pvc-" + uid, Remove: remove})
	}
	return storage, nil
}

package flow

import (
	"context"
	"fmt"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
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
		storage = append(storage, sdk.Storage{Name: "pvc-" + uid, Remove: f.removal(&v, uid)})
	}
	return storage, nil
}

// removal is the command that removes a volume, empty if somebody else uses it. The command of an attached volume gives
// the attachment the connector of this class first. Without one Cinder would remove the attachment, and leave the
// connection on the array.
func (f *Flow) removal(v *cinder.Volume, uid string) string {
	made := Flow{Request: f.Request, Parameters: f.Parameters, Properties: f.Properties}
	made.Request.Claim.UID, made.Request.VolumeName = uid, "pvc-"+uid
	remove := "openstack volume delete " + v.ID
	switch {
	case v.Status == statusAvailable:
		return remove
	case otherUser(v, made.attacher()) != "":
		return ""
	case len(v.Attachments) == 0:
		return fmt.Sprintf("openstack volume set --state available --detached %s && %s", v.ID, remove)
	}

	const cli = "openstack --os-volume-api-version " + cinder.AttachmentsVersion + " volume attachment"
	if f.perNode() { // the attachments have their connectors
		for _, a := range v.Attachments {
			remove = cli + " delete " + a.AttachmentID + " && " + remove
		}
		return remove
	}
	attachment := v.Attachments[0].AttachmentID
	all := made.connectors()
	c := all[len(all)-1]
	connector := fmt.Sprintf("--host %s --ip %s --platform %s --os-type %s",
		c["host"], c["ip"], c["platform"], c["os_type"])
	if c["initiator"] != nil {
		connector += fmt.Sprintf(" --initiator %s", c["initiator"])
	}
	if c["multipath"] == true {
		connector += " --multipath"
	}

	return fmt.Sprintf("%[1]s set %[2]s %[3]s && %[1]s delete %[3]s && %[4]s", cli, connector, attachment, remove)
}

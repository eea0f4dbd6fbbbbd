package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// step is the next step with a volume.
type step int

const (
	wait      step = iota
	create         // there is no volume
	reserve        // then connect and attach
	connect        // it is reserved: connect and attach
	reconnect      // it is attached: only the connection info is needed again
	clear          // it failed before it was used: remove it and begin again
	forget         // it is in use by no attachment that it shows: remove what is left of one
	terminate      // it is attached or reserved: disconnect it, then delete
	remove         // delete
	extend         // make it larger
	settle         // somebody began to attach it and did not end: complete or remove that
	busy           // another node has it
	done           // nothing
	stop           // an administrator has to do something
)

// The statuses on which a step depends. In every other status the volume is on its way to one of them.
const (
	statusAvailable     = "available"
	statusAttaching     = "attaching"
	statusInUse         = "in-use"
	statusError         = "error"
	statusDeleting      = "deleting"
	statusExtending     = "extending"
	statusErrorDeleting = "error_deleting"
)

// deletable are the statuses in which Cinder deletes a volume that is not attached.
var deletable = []string{statusAvailable, statusError, "error_restoring", "error_extending", "error_managing"}

// failed are the statuses that a volume does not leave by itself.
var failed = []string{statusError, statusErrorDeleting, "error_attaching", "error_detaching", "error_restoring",
	"error_extending", "error_managing", "error_backing-up", "error_managing_deleting", "maintenance", "awaiting-transfer"}

// attachable are the statuses of a volume that nodes attach: it is there.
var attachable = []string{statusAvailable, "reserved", statusAttaching, statusInUse, "detaching"}

// toProvision is the next step to a volume that is attached by the attacher, or that nodes will attach. A nil volume does
// not exist.
func toProvision(v *cinder.Volume, us attacher) step {
	switch {
	case v == nil:
		return create
	case v.Status == statusError && len(v.Attachments) == 0:
		return clear
	case slices.Contains(failed, v.Status) || otherUser(v, us) != "":
		return stop
	case us.perNode && slices.Contains(attachable, v.Status):
		return done
	case v.Status == statusAvailable:
		return reserve
	case v.Status == statusAttaching && len(v.Attachments) == 0:
		return connect
	case v.Status == statusInUse && len(v.Attachments) > 0:
		return reconnect
	case hasHiddenAttachment(v):
		return forget
	}
	return wait
}

// toDelete is the next step to the removal of the volume.
func toDelete(v *cinder.Volume, us attacher) step {
	switch {
	case v.Status == statusDeleting:
		return wait
	case v.Status == statusErrorDeleting || otherUser(v, us) != "":
		return stop
	case len(v.Attachments) > 0 && isSettled(v),
		slices.Contains([]string{statusAttaching, "error_attaching", "error_detaching"}, v.Status):
		return terminate
	case hasHiddenAttachment(v):
		return forget
	case slices.Contains(deletable, v.Status):
		return remove
	case slices.Contains(failed, v.Status):
		return stop
	}
	return wait
}

// isSettled reports whether Cinder does nothing with the volume itself, such as a backup, a retype or an upload. Such a
// job gives the volume the status back that it had, even if its attachment is gone by then.
func isSettled(v *cinder.Volume) bool {
	return v.Status == statusAvailable || v.Status == statusInUse || slices.Contains(failed, v.Status)
}

// toExpand is the next step to a volume of at least gib GiB. requested reports whether this run has requested that size. Then a volume
// that is back in its old status without that size has failed to expand. Cinder shows the new size only once the volume has it.
func toExpand(v *cinder.Volume, gib int, requested bool) step {
	switch {
	case v.Status == statusExtending:
		return wait
	case v.Size >= gib:
		return done
	case slices.Contains(failed, v.Status):
		return stop
	case v.Status != statusAvailable && v.Status != statusInUse:
		return wait
	case requested:
		return stop
	}
	return extend
}

// hasHiddenAttachment reports whether the volume is in use, and shows no attachment: Cinder began one and did not
// complete it, or a job of Cinder's gave the volume its status back when the attachment was gone.
func hasHiddenAttachment(v *cinder.Volume) bool {
	return v.Status == statusInUse && len(v.Attachments) == 0
}

// attacher has the host and device of this claim's attachment. Cinder shows the host's name to its administrators only.
// With perNode, each node has an attachment. The host is the node then, and its name follows the device's.
type attacher struct {
	host, device string
	perNode      bool
}

// node is the node that has the attachment, empty if it is not one of ours.
func (a attacher) node(attachment cinder.Attachment) string {
	node, ours := strings.CutPrefix(attachment.Device, a.device+"/")
	if !ours || attachment.ServerID != "" || len(validation.IsDNS1123Subdomain(node)) > 0 {
		return ""
	}

	return node
}

// of is the ID of the node's attachment, empty for none.
func (a attacher) of(node string, v *cinder.Volume) string {
	for _, attachment := range v.Attachments {
		if a.node(attachment) == node {
			return attachment.AttachmentID
		}
	}

	return ""
}

func (a attacher) matches(attachment cinder.Attachment) bool {
	if a.perNode {
		return a.node(attachment) != ""
	}

	return attachment.ServerID == "" && attachment.Device == a.device && (attachment.HostName == "" || attachment.HostName == a.host)
}

// otherUser names who else has the volume attached. It is empty if nobody has.
func otherUser(v *cinder.Volume, us attacher) string {
	for _, a := range v.Attachments {
		switch {
		case us.matches(a):
		case a.ServerID != "":
			return "server " + form.Line(a.ServerID)
		case a.HostName != "":
			return "host " + form.Quote(a.HostName)
		default:
			return "another host, as " + form.Quote(a.Device)
		}
	}
	return ""
}

// ownVolumes returns the volumes of a claim. The first is the one to keep: the one with the most progress, and of those the oldest. There
// are several only if two runs created one at the same time. It is an error if a volume has the name, but not the claim's UID in its
// metadata.
func ownVolumes(found []cinder.Volume, claimUID string) ([]cinder.Volume, error) {
	for _, v := range found {
		if v.Metadata[metaClaimUID] != claimUID {
			return nil, fmt.Errorf("cinder volume %s is called %s but has not %s=%s in its metadata, so it is not ours; rename it or set the metadata",
				v.ID, form.Quote(v.Name), metaClaimUID, claimUID)
		}
	}
	mine := slices.Clone(found) // Find returns the oldest first
	slices.SortStableFunc(mine, func(a, b cinder.Volume) int { return cmp.Compare(progress(b), progress(a)) })
	return mine, nil
}

func progress(v cinder.Volume) int {
	return slices.Index([]string{statusError, statusAvailable, statusAttaching, statusInUse}, v.Status)
}

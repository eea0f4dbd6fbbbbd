package flow

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// step is what to do with a volume next.
type step int

const (
	wait      step = iota
	create         // there is none
	reserve        // then connect and attach
	connect        // it is reserved: connect and attach
	reconnect      // it is attached: only the connection has to be told again
	clear          // it failed before it was ever used: remove it, to begin anew
	forget         // it was being attached when Cinder died: remove what is left of that
	terminate      // it is attached or reserved: let go of it, then delete
	remove         // delete
	extend         // make it larger
	done           // nothing
	stop           // a person has to do something
)

// The states of a volume that decide anything. In all others it is on its way to one of them.
const (
	statusAvailable     = "available"
	statusAttaching     = "attaching"
	statusInUse         = "in-use"
	statusError         = "error"
	statusDeleting      = "deleting"
	statusExtending     = "extending"
	statusErrorDeleting = "error_deleting"
)

// deletable are the states in which Cinder deletes, provided that the volume is not attached.
var deletable = []string{statusAvailable, statusError, "error_restoring", "error_extending", "error_managing"}

// failed are the states that a volume does not leave by itself.
var failed = []string{statusError, statusErrorDeleting, "error_attaching", "error_detaching", "error_restoring",
	"error_extending", "error_managing", "error_backing-up", "error_managing_deleting", "maintenance", "awaiting-transfer"}

// toProvision is the next step to a volume that is attached by us. A nil volume does not exist.
func toProvision(v *cinder.Volume, us attacher) step {
	switch {
	case v == nil:
		return create
	case v.Status == statusError && len(v.Attachments) == 0:
		return clear
	case slices.Contains(failed, v.Status) || foreign(v, us) != "":
		return stop
	case v.Status == statusAvailable:
		return reserve
	case v.Status == statusAttaching && len(v.Attachments) == 0:
		return connect
	case v.Status == statusInUse && len(v.Attachments) > 0:
		return reconnect
	case begun(v):
		return forget
	}
	return wait
}

// toDelete is the next step to no volume.
func toDelete(v *cinder.Volume, us attacher) step {
	switch {
	case v.Status == statusDeleting:
		return wait
	case v.Status == statusErrorDeleting || foreign(v, us) != "":
		return stop
	case len(v.Attachments) > 0 && v.Status != "detaching", v.Status == statusAttaching, v.Status == "error_attaching", v.Status == "error_detaching":
		return terminate
	case begun(v):
		return forget
	case slices.Contains(deletable, v.Status):
		return remove
	case slices.Contains(failed, v.Status):
		return stop
	}
	return wait
}

// toExpand is the next step to a volume of at least so many GiB. asked says that this run has asked for it: what goes back
// to its old state then has failed, whatever its status. Cinder shows the new size only once it has it.
func toExpand(v *cinder.Volume, gib int, asked bool) step {
	switch {
	case v.Status == statusExtending:
		return wait
	case v.Size >= gib:
		return done
	case slices.Contains(failed, v.Status):
		return stop
	case v.Status != statusAvailable && v.Status != statusInUse:
		return wait
	case asked:
		return stop
	}
	return extend
}

// begun reports whether the volume is in use by an attachment that Cinder does not show, because it began it and did not end it.
func begun(v *cinder.Volume) bool { return v.Status == statusInUse && len(v.Attachments) == 0 }

// attacher is how an attachment of ours looks: the host and the device that it was made with. Cinder shows the host's name
// to its administrators only.
type attacher struct{ host, device string }

func (a attacher) made(attachment cinder.Attachment) bool {
	return attachment.ServerID == "" && attachment.Device == a.device && (attachment.HostName == "" || attachment.HostName == a.host)
}

// foreign says who else has the volume attached, or nothing.
func foreign(v *cinder.Volume, us attacher) string {
	for _, a := range v.Attachments {
		switch {
		case us.made(a):
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

// ours are the volumes of a claim, the one to keep first: the one that has come furthest, and of those the oldest. There
// are several only where two runs did not see each other. A volume that has the name, but not the claim's UID in its
// metadata, is an error.
func ours(found []cinder.Volume, claimUID string) ([]cinder.Volume, error) {
	for _, v := range found {
		if v.Metadata[metaClaimUID] != claimUID {
			return nil, fmt.Errorf("cinder volume %s is called %s but has not %s=%s in its metadata, so it is not ours; rename it or set the metadata",
				v.ID, form.Quote(v.Name), metaClaimUID, claimUID)
		}
	}
	mine := slices.Clone(found) // Find gives the oldest first
	slices.SortStableFunc(mine, func(a, b cinder.Volume) int { return cmp.Compare(progress(b), progress(a)) })
	return mine, nil
}

func progress(v cinder.Volume) int {
	return slices.Index([]string{statusError, statusAvailable, statusAttaching, statusInUse}, v.Status)
}

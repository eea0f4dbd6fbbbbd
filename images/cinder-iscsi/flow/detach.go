package flow

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Detach takes the volume away from the request's node, whether that lives or not: the backend no longer lets it in. Other
// nodes keep the volume.
func (f *Flow) Detach(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()
	err := f.openForNode(ctx, pv)
	for settled := false; err == nil && !settled; {
		var volume *cinder.Volume
		var records []cinder.Record
		volume, records, err = f.detach(ctx, pv, func(node string) bool { return node == f.Request.Attachment.Node })
		if err != nil || volume == nil {
			break
		}
		settled, err = f.putNodeSecrets(ctx, volume, records)
	}

	return f.withState(ctx, err)
}

// detach ends the attachments of some nodes, and brings what is unfinished to an end. It returns the volume without them,
// nil if it is gone.
func (f *Flow) detach(
	ctx context.Context, pv *corev1.PersistentVolume, of func(node string) bool,
) (*cinder.Volume, []cinder.Record, error) {
	var p backoff
	for {
		volume, records, err := f.look(ctx, pv)
		if err != nil || volume == nil {
			return nil, nil, err
		}

		i := slices.IndexFunc(volume.Attachments, func(a cinder.Attachment) bool {
			node := f.attacher().node(a)
			return node != "" && of(node)
		})
		begun := hidden(volume, records)
		switch {
		case i >= 0:
			err = f.cinder.Forget(ctx, volume.Attachments[i].AttachmentID)
		case begun != nil:
			err = f.settle(ctx, begun)
		default:
			return volume, records, nil
		}
		if err == nil {
			err = p.wait(ctx)
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// openForNode logs in, after the checks that need no Cinder.
func (f *Flow) openForNode(ctx context.Context, pv *corev1.PersistentVolume) error {
	if !f.perNode() {
		return sdk.Refuse(fmt.Errorf("volume %s is of initiatorMode %s, which attaches nothing later",
			f.Request.VolumeName, f.Parameters.InitiatorMode))
	}
	f.readOnly = pv != nil && pv.Spec.CSI != nil && pv.Spec.CSI.ReadOnly
	if err := f.open(ctx); err != nil {
		return err
	}

	return f.checkLocation(pv)
}

// perNode reports whether the volume is exported to each node when it is attached there.
func (f *Flow) perNode() bool { return f.Parameters.InitiatorMode == parameters.Attach }

// look reads the volume, nil if it is gone, and then what Cinder keeps of its attachments.
func (f *Flow) look(ctx context.Context, pv *corev1.PersistentVolume) (*cinder.Volume, []cinder.Record, error) {
	volume, err := f.findAny(ctx, pv)
	if err != nil || volume == nil {
		return nil, nil, err
	}
	records, err := patiently(ctx, func() ([]cinder.Record, error) { return f.cinder.Records(ctx, volume.ID) })

	return volume, records, err
}

// hidden is an attachment that the volume does not show, nil for none: somebody began it, and did not come to its end. The
// attachments of servers are none of ours.
func hidden(v *cinder.Volume, records []cinder.Record) *cinder.Record {
	for _, r := range records {
		shown := slices.ContainsFunc(v.Attachments, func(a cinder.Attachment) bool { return a.AttachmentID == r.ID })
		if r.Instance == "" && !shown {
			return &r
		}
	}

	return nil
}

// maxPatience is how long Cinder waits for a backend's part of a call by default.
const maxPatience = time.Minute

// settle brings a hidden attachment to an end. One with a connection is completed, which shows whose it is. Another one is
// removed, but not for some time, in which settle does nothing: Cinder may still be connecting it, for a run that was
// killed.
func (f *Flow) settle(ctx context.Context, begun *cinder.Record) error {
	if len(begun.ConnectionInfo) > 0 {
		return f.cinder.CompleteAttachment(ctx, begun.ID)
	}

	if f.begun.id != begun.ID {
		patience := maxPatience
		if deadline, ends := ctx.Deadline(); ends {
			patience = min(patience, time.Until(deadline)/2)
		}
		f.begun.id, f.begun.until = begun.ID, time.Now().Add(patience)
	}
	if time.Now().Before(f.begun.until) {
		return nil
	}

	return f.cinder.Forget(ctx, begun.ID)
}

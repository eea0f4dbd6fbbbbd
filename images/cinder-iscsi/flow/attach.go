package flow

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Attach lets the request's node reach the volume, and returns what the node has to know.
//
// A node has one attachment, which is known by its device. Cinder shows the device once the attachment is complete. So an
// attachment with a connection is completed, whoever began it. Cinder reserves a volume for one attachment at a time, until
// that is complete. So the volume is read again after the reservation: from then on nobody else attaches it to the node.
func (f *Flow) Attach(ctx context.Context, pv *corev1.PersistentVolume) (map[string]string, error) {
	defer f.end()
	published, err := f.attachNode(ctx, pv)

	return published, f.withState(ctx, err)
}

func (f *Flow) attachNode(ctx context.Context, pv *corev1.PersistentVolume) (published map[string]string, err error) {
	if err := f.openForNode(ctx, pv); err != nil {
		return nil, err
	}
	connector, err := f.nodeConnector()
	if err != nil {
		return nil, sdk.Refuse(err)
	}

	var p backoff
	made, last := "", wait
	for published == nil {
		volume, records, err := f.look(ctx, pv)
		if err == nil && volume == nil {
			err = f.gone()
		}
		if err != nil {
			return nil, err
		}

		next := toAttach(volume, records, f.attacher(), f.Request.Attachment.Node, made)
		idle := next == wait || next == last
		last = next
		switch next {
		case done:
			published, err = f.publish(ctx, volume, records, made)
		case settle:
			err = f.settle(ctx, hidden(volume, records))
		case reserve: // of several callers at the same time, one succeeds
			made, err = f.cinder.CreateAttachment(ctx, volume.ID)
		case connect:
			err = f.connectNode(ctx, made, connector)
		case stop:
			err = f.stateError(ctx, volume)
		case busy:
			err = sdk.TryAgain(fmt.Errorf("cinder volume %s is still attached to node %s, and its type allows one node "+
				"at a time", volume.ID, f.attacher().node(volume.Attachments[0])))
		}
		if err == nil && idle && published == nil {
			err = p.wait(ctx)
		}
		if err != nil {
			return nil, err
		}
	}

	return published, nil
}

// toAttach is the next step until the node has the volume. made is the attachment that this run began.
func toAttach(v *cinder.Volume, records []cinder.Record, us attacher, node, made string) step {
	begun := hidden(v, records)
	switch {
	case us.of(node, v) != "":
		return done
	case begun != nil && begun.ID == made && len(begun.ConnectionInfo) == 0:
		return connect
	case begun != nil:
		return settle
	case slices.Contains(failed, v.Status) || otherUser(v, us) != "":
		return stop
	case v.Status == statusAvailable || v.Status == statusInUse && v.Multiattach:
		return reserve
	case v.Status == statusInUse && len(v.Attachments) > 0:
		return busy
	}

	return wait
}

// connectNode exports the volume to the node. After another failure than these Cinder may still be at it, and the next
// attempt sees what became of it.
func (f *Flow) connectNode(ctx context.Context, id string, connector cinder.Connector) error {
	err := f.cinder.UpdateAttachment(ctx, id, connector)
	if sdk.ExitCode(err) == contract.ExitRefused || hasStatus(err, http.StatusInternalServerError) {
		return f.drop(ctx, id, err)
	}

	return err
}

// drop removes an attachment that is of no use, and returns why.
func (f *Flow) drop(ctx context.Context, id string, why error) error {
	if err := f.cinder.Forget(ctx, id); err != nil {
		return fmt.Errorf("%w; and its attachment could not be removed: %w", withoutCode(why), withoutCode(err))
	}

	return why
}

// publish returns what the node has to know, nil as long as the Secret may lack credentials.
func (f *Flow) publish(
	ctx context.Context, v *cinder.Volume, records []cinder.Record, made string,
) (map[string]string, error) {
	mine := f.attacher().of(f.Request.Attachment.Node, v)
	if made != "" && made != mine { // an earlier run, which was thought to be dead, was faster
		if err := f.cinder.Forget(ctx, made); err != nil {
			return nil, err
		}
	}
	data := cinder.ConnectionOf(records, mine)
	if data == nil {
		return nil, nil // somebody removes it
	}
	reached, err := f.reach(v, data)
	if err != nil {
		return nil, f.drop(ctx, mine, sdk.Refuse(err))
	}
	if settled, err := f.putNodeSecrets(ctx, v, records); !settled {
		return nil, err
	}

	published := map[string]string{"paths": strings.Join(reached.Paths, " ")}
	if reached.WWID != "" {
		published["wwid"] = reached.WWID
	}

	return published, nil
}

// reach is how a node reaches the volume by an attachment.
func (f *Flow) reach(v *cinder.Volume, data []byte) (mapper.Reached, error) {
	connection, err := mapper.Decode(data)
	if err != nil {
		return mapper.Reached{}, fmt.Errorf("connect cinder volume %s: %w", v.ID, err)
	}

	return mapper.Reach(connection, mapper.Input{Name: f.Request.VolumeName, VolumeID: v.ID, ReadOnly: f.readOnly})
}

// putNodeSecrets writes the credentials of all nodes that have the volume into its Secret. It has them from Cinder, since
// nobody may read Secrets, and who may patch one reads it, too. A run for another node may write at the same time. So the
// attachments are read again after a write, and it is settled once they are those that were written.
func (f *Flow) putNodeSecrets(ctx context.Context, v *cinder.Volume, records []cinder.Record) (settled bool, err error) {
	secret := mapper.Secret{}
	for _, a := range v.Attachments {
		node := f.attacher().node(a)
		if node == "" {
			continue
		}
		reached, err := f.reach(v, cinder.ConnectionOf(records, a.AttachmentID))
		if err != nil {
			f.Log.Warn("a node's credentials are left out", "node", node, "error", err.Error())
		} else if user := reached.Secret[mapper.SessionUser]; user != "" {
			secret[node+".username"], secret[node+".password"] = user, reached.Secret[mapper.SessionPassword]
		}
	}
	if f.written != nil && maps.Equal(secret, f.written) {
		return true, nil
	}

	f.written = secret

	return false, f.Cluster.PutSecret(ctx, f.Request.VolumeName, f.Request.Claim.UID, secret)
}

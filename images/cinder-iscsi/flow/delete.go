package flow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Delete removes the volume and its Secret. pv is nil for an undo. It does not begin while a node uses the volume, since the node's
// device could then show another volume that the backend puts there.
func (f *Flow) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()
	return f.withState(ctx, f.delete(ctx, pv))
}

func (f *Flow) delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv != nil {
		if err := f.checkUnused(ctx, pv.Spec.PersistentVolumeSource); err != nil {
			return err
		}
	}
	if err := f.open(ctx); err != nil {
		return err
	}
	if err := f.checkLocation(pv); err != nil {
		return err
	}
	if f.perNode() {
		// No node uses a volume any more. An undo does not know of one.
		if _, _, err := f.detach(ctx, pv, func(string) bool { return pv != nil }); err != nil {
			return err
		}
	}
	if err := f.removeAll(ctx, pv); err != nil {
		return err
	}
	return f.Cluster.RemoveSecret(ctx, f.Request.VolumeName)
}

func (f *Flow) checkUnused(ctx context.Context, source corev1.PersistentVolumeSource) error {
	nodes, err := f.Cluster.NodesUsing(ctx, source)
	if err == nil && len(nodes) > 0 {
		err = sdk.TryAgain(fmt.Errorf("volume %s is still in use on node %s", f.Request.VolumeName, strings.Join(nodes, ", ")))
	}
	return err
}

// checkUndo checks for an undo that no node uses the volume. An undo that a former leader ordered may run when there is a PersistentVolume by
// now. Only an attached volume can have one. An undo has no PersistentVolume that names the target, so the volume is connected again,
// which changes nothing but, on some arrays, its credentials.
func (f *Flow) checkUndo(ctx context.Context, v *cinder.Volume) error {
	if f.perNode() {
		if slices.ContainsFunc(v.Attachments, f.attacher().matches) {
			return sdk.TryAgain(fmt.Errorf("volume %s is still attached to a node", f.Request.VolumeName))
		}
		return nil
	}
	if toProvision(v, f.attacher()) != reconnect {
		return nil
	}
	mapped, _, err := f.connect(ctx, v.ID)
	if err != nil {
		return fmt.Errorf("see which nodes use cinder volume %s: %w", v.ID, withoutCode(err))
	}
	return f.checkUnused(ctx, mapped.Source)
}

// checkLocation checks that the credentials are for the volume's project and region. With others every volume would seem to be gone.
func (f *Flow) checkLocation(pv *corev1.PersistentVolume) error {
	if pv == nil {
		return sdk.CheckLocation(f.Request, f.location())
	}
	for _, place := range []struct{ name, annotation, now string }{
		{"project", AnnProject, f.project}, {"region", AnnRegion, f.region},
	} {
		if then := pv.Annotations[place.annotation]; then != "" && then != place.now {
			return fmt.Errorf("volume %s was made in %s %s, but the credentials are now for %q; correct them, or annotation %s",
				pv.Name, place.name, form.Quote(then), place.now, place.annotation)
		}
	}
	return nil
}

// removeAll returns once Cinder has no volume of the claim. Cinder makes a volume available again that its backend cannot do
// without.
func (f *Flow) removeAll(ctx context.Context, pv *corev1.PersistentVolume) error {
	var p backoff
	deleting := map[string]bool{}
	for byID := pv != nil; ; {
		mine, err := f.findVolumes(ctx)
		if err != nil {
			return err
		}
		if len(mine) > 0 {
			byID = false
		} else if byID {
			if mine, err = f.findByID(ctx, pv); err != nil {
				return err
			}
		}
		if len(mine) == 0 {
			return nil
		}
		for _, v := range mine {
			if deleting[v.ID] && v.Status == statusAvailable {
				return sdk.TryAgain(fmt.Errorf("%s again after the request to remove it; it is removed after what depends "+
					"on it, such as clones", describe(&v)))
			}
			deleting[v.ID] = v.Status == statusDeleting
			if pv == nil {
				if err := f.checkUndo(ctx, &v); err != nil {
					return err
				}
			}
			if err := f.remove(ctx, &v); err != nil {
				return err
			}
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

// findByID finds the volume by its ID, since somebody may have renamed it.
func (f *Flow) findByID(ctx context.Context, pv *corev1.PersistentVolume) ([]cinder.Volume, error) {
	id := pv.Annotations[AnnVolumeID]
	if id == "" {
		return nil, nil
	}
	if _, err := form.UUID("annotation "+AnnVolumeID, id); err != nil {
		return nil, fmt.Errorf("volume %s: %w; correct it", pv.Name, err)
	}
	volume, err := f.cinder.Show(ctx, id)
	if err != nil || volume == nil {
		return nil, err
	}
	f.state = describe(volume)
	return ownVolumes([]cinder.Volume{*volume}, f.Request.Claim.UID)
}

// remove takes the next steps to the removal of a volume, as far as its state allows.
func (f *Flow) remove(ctx context.Context, v *cinder.Volume) error {
	next := toDelete(v, f.attacher())
	switch next {
	case wait:
		return nil
	case stop:
		return f.stateError(ctx, v)
	case forget:
		return f.release(ctx, v)
	case terminate:
		// A volume that cannot be deleted keeps its connection.
		if err := f.checkSnapshots(ctx, v); err != nil {
			return err
		}
		if err := f.disconnect(ctx, v); hasStatus(err, http.StatusConflict) {
			return f.forgetUnfinished(ctx, v, err)
		} else if err != nil {
			return err
		}
	}
	err := f.cinder.Delete(ctx, v.ID)
	switch {
	case !hasStatus(err, http.StatusBadRequest):
		return err
	case next == terminate:
		return nil // Cinder still works on it, so the state is read again
	}
	if err := f.checkSnapshots(ctx, v); err != nil {
		return err
	}
	return f.forgetUnfinished(ctx, v, err)
}

func hasStatus(err error, status int) bool {
	var answer *cinder.Error
	return errors.As(err, &answer) && answer.Status == status
}

// patientAttempts is the number of attempts that take an array for broken that cannot end a connection.
const patientAttempts = 3

// isForgotten reports whether the array seems to have forgotten the host, so that it answers each end of the connection
// with an error. Some arrays remove a host with its last volume. Others never had the host, since the volume was only
// reserved.
func (f *Flow) isForgotten(v *cinder.Volume, err error) bool {
	waited := len(v.Attachments) == 0 || f.Request.Attempt >= patientAttempts
	return waited && hasStatus(err, http.StatusInternalServerError)
}

// disconnect ends the connections. Then it detaches a volume that was attached, and unreserves one that was only reserved. The
// connections come first: the export is removed with the attachment, and some backends cannot end a connection after that.
func (f *Flow) disconnect(ctx context.Context, v *cinder.Volume) error {
	if f.perNode() && len(v.Attachments) > 0 {
		return sdk.TryAgain(fmt.Errorf("volume %s was attached to a node just now", f.Request.VolumeName))
	}
	for _, connector := range f.connectors() {
		err := f.cinder.Terminate(ctx, v.ID, connector)
		if err != nil && !f.isForgotten(v, err) {
			return err
		}
	}
	if len(v.Attachments) == 0 {
		return f.cinder.Unreserve(ctx, v.ID)
	}
	for _, a := range v.Attachments {
		if err := f.cinder.Detach(ctx, v.ID, a.AttachmentID); err != nil {
			return err
		}
	}
	return nil
}

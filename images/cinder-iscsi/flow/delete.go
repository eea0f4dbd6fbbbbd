package flow

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Delete removes the volume and its Secret; pv is nil for an undo. It refuses to begin while a node uses the volume: the
// node's device would show whatever the backend puts there next.
func (f *Flow) Delete(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()
	return f.gaveUp(ctx, f.delete(ctx, pv))
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
	if err := f.checkPlace(pv); err != nil {
		return err
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

// checkUndo sees for an undo which nodes use the volume, as a delete sees by the PersistentVolume. An undo that a former leader ordered
// may come when there is one. Only an attached volume can have one, and to connect that once more changes nothing but, on some arrays,
// its credentials.
func (f *Flow) checkUndo(ctx context.Context, v *cinder.Volume) error {
	if toProvision(v, f.us()) != reconnect {
		return nil
	}
	mapped, _, err := f.connect(ctx, v.ID)
	if err != nil {
		return fmt.Errorf("see which nodes use cinder volume %s: %w", v.ID, withoutCode(err))
	}
	return f.checkUnused(ctx, mapped.Source)
}

// checkPlace: with credentials for another project or region every volume seems to be gone.
func (f *Flow) checkPlace(pv *corev1.PersistentVolume) error {
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

// removeAll returns once Cinder has no volume of the claim.
func (f *Flow) removeAll(ctx context.Context, pv *corev1.PersistentVolume) error {
	var p pauses
	for byID := pv != nil; ; {
		mine, err := f.look(ctx)
		if err != nil {
			return err
		}
		if len(mine) > 0 {
			byID = false
		} else if byID {
			if mine, err = f.renamed(ctx, pv); err != nil {
				return err
			}
		}
		if len(mine) == 0 {
			return nil
		}
		for _, v := range mine {
			if pv == nil {
				if err := f.checkUndo(ctx, &v); err != nil {
					return err
				}
			}
			if err := f.remove(ctx, &v); err != nil {
				return err
			}
		}
		if err := p.pause(ctx); err != nil {
			return err
		}
	}
}

// renamed is the volume by its ID, for the case that somebody gave it another name.
func (f *Flow) renamed(ctx context.Context, pv *corev1.PersistentVolume) ([]cinder.Volume, error) {
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
	return ours([]cinder.Volume{*volume}, f.Request.Claim.UID)
}

// remove takes a volume as far towards its end as its state allows.
func (f *Flow) remove(ctx context.Context, v *cinder.Volume) error {
	next := toDelete(v, f.us())
	switch next {
	case wait:
		return nil
	case stop:
		return f.stuck(ctx, v)
	case forget:
		return f.forgetBegun(ctx, v, nil)
	case terminate:
		if err := f.letGo(ctx, v); hasStatus(err, http.StatusConflict) {
			return f.forgetBegun(ctx, v, err)
		} else if err != nil {
			return err
		}
	}
	err := f.cinder.Delete(ctx, v.ID)
	switch {
	case !hasStatus(err, http.StatusBadRequest):
		return err
	case next == terminate:
		return nil // Cinder is still at it: the next look decides
	}
	return f.forgetBegun(ctx, v, err)
}

func hasStatus(err error, status int) bool {
	var answer *cinder.Error
	return errors.As(err, &answer) && answer.Status == status
}

// letGo ends the connections, then detaches a volume that was attached, and unreserves one that was only reserved. The
// order is the backend's: once the attachment is gone, so is the export, and some can no longer end a connection to it.
func (f *Flow) letGo(ctx context.Context, v *cinder.Volume) error {
	for _, connector := range f.connectors() {
		if err := f.cinder.Terminate(ctx, v.ID, connector); err != nil {
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

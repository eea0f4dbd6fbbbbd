package flow

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Expand expands the volume of pv to at least the requested size, and returns once Cinder shows that size. The volume is in use, so the
// node keeps its connection. When the node sees the new size depends on the backend.
//
// An error without an exit code means that the volume does not have that size and will not get it, so that the user may ask for less. It
// is returned only if Cinder says so. After every other error the run has to be repeated until Cinder does.
func (f *Flow) Expand(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()
	requested, settled, err := f.expand(ctx, pv)
	err = f.withState(ctx, err)
	code := sdk.ExitCode(err)
	if !settled && (code == 1 || requested && code == contract.ExitRefused) {
		return sdk.TryAgain(withoutCode(err))
	}
	return err
}

// expand reports whether it requested a larger volume, and whether its error is final.
func (f *Flow) expand(ctx context.Context, pv *corev1.PersistentVolume) (requested, settled bool, err error) {
	if err := f.checkExpandable(pv); err != nil {
		return false, true, sdk.Refuse(err)
	}
	if err := f.open(ctx); err != nil {
		return false, false, err
	}
	if err := f.checkLocation(pv); err != nil {
		return false, false, err
	}
	gib := sizeGiB(f.Request.SizeBytes)
	var p backoff
	for {
		volume, err := f.volumeOf(ctx, pv)
		if err != nil {
			return requested, false, err
		}
		switch toExpand(volume, gib, requested) {
		case done:
			return requested, true, nil
		case stop:
			return requested, true, f.notExpanded(ctx, volume, gib)
		case extend:
			requested = true
			if err := f.cinder.Extend(ctx, volume.ID, gib); err != nil {
				var answer *cinder.Error
				return requested, errors.As(err, &answer) && answer.Status >= 400 && answer.Status < 500, err
			}
		}
		if err := p.wait(ctx); err != nil {
			return requested, false, err
		}
	}
}

// checkExpandable refuses what csi-driver-nvmf cannot expand. It looks for the disk by the volume's handle, and makes
// no file system larger.
func (f *Flow) checkExpandable(pv *corev1.PersistentVolume) error {
	source := pv.Spec.CSI
	if source == nil || source.Driver != f.Parameters.NVMeCSIDriver {
		return nil
	}

	switch {
	case pv.Spec.VolumeMode == nil || *pv.Spec.VolumeMode != corev1.PersistentVolumeBlock:
		return fmt.Errorf("volume %s has a file system that driver %s mounts, which neither the driver nor a "+
			"provisioner pod can grow: use volumeMode Block, or copy the data to a larger claim",
			pv.Name, source.Driver)
	case source.VolumeHandle != source.VolumeAttributes["deviceUUID"]:
		return fmt.Errorf("volume %s has a volumeHandle that is not the UUID of its disk, by which driver %s looks "+
			"for it; copy the data to a larger claim", pv.Name, source.Driver)
	}

	return nil
}

// volumeOf is the Cinder volume of a PersistentVolume. It is an error if there is none.
func (f *Flow) volumeOf(ctx context.Context, pv *corev1.PersistentVolume) (*cinder.Volume, error) {
	volume, err := f.findAny(ctx, pv)
	if err == nil && volume == nil {
		err = f.gone()
	}
	return volume, err
}

// findAny is volumeOf, nil if there is none.
func (f *Flow) findAny(ctx context.Context, pv *corev1.PersistentVolume) (*cinder.Volume, error) {
	mine, err := f.findVolumes(ctx)
	if err == nil && len(mine) == 0 && pv != nil {
		mine, err = f.findByID(ctx, pv)
	}
	if err != nil || len(mine) == 0 {
		return nil, err
	}
	return &mine[0], nil
}

func (f *Flow) gone() error {
	return fmt.Errorf("there is no cinder volume %s; did somebody delete it?", f.Request.VolumeName)
}

// notExpanded is the error for a volume that did not become larger, with Cinder's message if there is one.
func (f *Flow) notExpanded(ctx context.Context, v *cinder.Volume, gib int) error {
	message := f.cinder.Message(ctx, v.ID)
	if message == "" {
		message = "cinder does not say why"
	}
	return fmt.Errorf("%s with %d GiB, not %d: %s", describe(v), v.Size, gib, message)
}

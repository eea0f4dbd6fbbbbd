package flow

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Expand makes the volume of pv at least as large as the request says, and returns once Cinder says that it is. The volume
// is in use, so the node keeps its connection; when the node sees the new size is between it and the backend.
//
// A plain error means that the volume is not and will not be so large: its user may ask for less. So it is one only where
// Cinder said so. After every other the run has to be repeated until Cinder does.
func (f *Flow) Expand(ctx context.Context, pv *corev1.PersistentVolume) error {
	defer f.end()
	asked, settled, err := f.expand(ctx, pv)
	err = f.gaveUp(ctx, err)
	code := sdk.ExitCode(err)
	if !settled && (code == 1 || asked && code == contract.ExitRefused) {
		return sdk.TryAgain(withoutCode(err))
	}
	return err
}

// expand says beside its error whether it asked for a larger volume, and whether the error settles that there is none.
func (f *Flow) expand(ctx context.Context, pv *corev1.PersistentVolume) (asked, settled bool, err error) {
	if err := f.open(ctx); err != nil {
		return false, false, err
	}
	if err := f.checkPlace(pv); err != nil {
		return false, false, err
	}
	gib := sizeGiB(f.Request.SizeBytes)
	var p pauses
	for {
		volume, err := f.volumeOf(ctx, pv)
		if err != nil {
			return asked, false, err
		}
		switch toExpand(volume, gib, asked) {
		case done:
			return asked, true, nil
		case stop:
			return asked, true, f.notExpanded(ctx, volume, gib)
		case extend:
			asked = true
			if err := f.cinder.Extend(ctx, volume.ID, gib); err != nil {
				var answer *cinder.Error
				return asked, errors.As(err, &answer) && answer.Status >= 400 && answer.Status < 500, err
			}
		}
		if err := p.pause(ctx); err != nil {
			return asked, false, err
		}
	}
}

// volumeOf is the Cinder volume of a PersistentVolume. That there is none is never good news here.
func (f *Flow) volumeOf(ctx context.Context, pv *corev1.PersistentVolume) (*cinder.Volume, error) {
	mine, err := f.look(ctx)
	if err == nil && len(mine) == 0 {
		mine, err = f.renamed(ctx, pv)
	}
	if err != nil {
		return nil, err
	}
	if len(mine) == 0 {
		return nil, fmt.Errorf("there is no cinder volume %s; did somebody delete it?", f.Request.VolumeName)
	}
	return &mine[0], nil
}

// notExpanded is the error for a volume that did not become larger, in Cinder's own words where it has some.
func (f *Flow) notExpanded(ctx context.Context, v *cinder.Volume, gib int) error {
	message := f.cinder.Message(ctx, v.ID)
	if message == "" {
		message = "cinder does not say why"
	}
	return fmt.Errorf("%s with %d GiB, not %d: %s", describe(v), v.Size, gib, message)
}

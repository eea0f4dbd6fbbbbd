package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// Provision makes the volume, or goes on with the one that an earlier run made. What was made and then found to be of no
// use is removed again before the request is refused, since a refusal promises that nothing was made.
func (f *Flow) Provision(ctx context.Context) (*sdk.Volume, error) {
	defer f.end()
	volume, err := f.provision(ctx)
	if sdk.ExitCode(err) == contract.ExitRefused {
		err = f.keepPromise(ctx, err)
	}
	return volume, f.gaveUp(ctx, err)
}

// keepPromise removes the volume that this run made. One of an earlier run stays, because that run may have got further
// than this one knows; then the error is no refusal.
func (f *Flow) keepPromise(ctx context.Context, refused error) error {
	if !f.exists {
		return refused
	}
	plain := withoutCode(refused)
	if f.created == "" {
		return plain
	}
	if err := f.removeAll(ctx, nil); err != nil {
		return fmt.Errorf("%w; and the volume that was made for it could not be removed: %w", plain, withoutCode(err))
	}
	if err := f.Cluster.RemoveSecret(ctx, f.Request.VolumeName); err != nil {
		return fmt.Errorf("%w; and its secret could not be removed: %w", plain, withoutCode(err))
	}
	return refused
}

// withoutCode keeps of an error its text.
func withoutCode(err error) error { return errors.New(err.Error()) }

func (f *Flow) provision(ctx context.Context) (*sdk.Volume, error) {
	if err := checkRequest(f.Request); err != nil {
		return nil, sdk.Refuse(err)
	}
	if f.Parameters.InitiatorMode == parameters.Node && len(f.Properties.Initiators) == 0 {
		return nil, sdk.Refuse(errors.New("parameter initiatorMode is node, but property initiators is missing; list the nodes' iSCSI names in it"))
	}
	label, zones, err := allowedZones(f.Request.AllowedTopologies)
	if err != nil {
		return nil, sdk.Refuse(err)
	}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	if err := sdk.CheckLocation(f.Request, f.location()); err != nil {
		return nil, err
	}
	if err := f.SetLocation(f.location()); err != nil {
		return nil, err
	}
	if err := f.checkType(ctx); err != nil {
		return nil, err
	}
	volume, next, err := f.ready(ctx)
	if err != nil {
		return nil, err
	}
	if volume.Encrypted {
		return nil, sdk.Refuse(fmt.Errorf("cinder volume %s is encrypted: only a host with the key could read it; use a volume type without encryption", volume.ID))
	}
	if label != "" && !slices.Contains(zones, volume.AvailabilityZone) {
		return nil, sdk.Refuse(fmt.Errorf("cinder volume %s is in availability zone %s, but allowedTopologies has only %s; correct cinder's zones or the class",
			volume.ID, form.Quote(volume.AvailabilityZone), strings.Join(zones, ", ")))
	}
	return f.attach(ctx, volume, next, label)
}

// attach takes a volume from "available", or where an earlier run left it, to "in-use", and describes it. label is that by which
// nodes say in which zone they are, or empty. The zone is the one that Cinder says: another node may have been selected since an
// earlier run made the volume.
func (f *Flow) attach(ctx context.Context, volume *cinder.Volume, next step, label string) (*sdk.Volume, error) {
	if next == reserve {
		if err := f.cinder.Reserve(ctx, volume.ID); err != nil {
			return nil, err
		}
		f.state = "cinder volume " + volume.ID + " is reserved"
	}
	mapped, readOnly, err := f.connect(ctx, volume.ID)
	if err != nil {
		return nil, err
	}
	if next != reconnect {
		if err := f.cinder.Attach(ctx, volume.ID, f.host(), f.device(), readOnly); err != nil {
			return nil, err
		}
		f.state = "cinder volume " + volume.ID + " is in-use"
	}
	if mapped.Secret != nil {
		if err := f.Cluster.PutSecret(ctx, f.Request.VolumeName, f.Request.Claim.UID, mapped.Secret); err != nil {
			return nil, err
		}
	}
	made := &sdk.Volume{
		Source:      mapped.Source,
		Capacity:    *resource.NewQuantity(int64(volume.Size)*gib, resource.BinarySI),
		Annotations: f.annotations(volume),
	}
	if label != "" {
		made.NodeAffinity = sdk.NodeAffinity(label, volume.AvailabilityZone)
	}
	return made, nil
}

func (f *Flow) annotations(volume *cinder.Volume) map[string]string {
	annotations := map[string]string{AnnVolumeID: volume.ID, AnnProject: f.project}
	if f.region != "" {
		annotations[AnnRegion] = f.region
	}
	if source := f.Request.Source; source != nil {
		annotations[AnnCloneOf] = source.Namespace + "/" + source.Name
	}
	return annotations
}

// ready returns the volume once it can be connected, and how to go on with it.
func (f *Flow) ready(ctx context.Context) (*cinder.Volume, step, error) {
	var p pauses
	for {
		mine, err := f.look(ctx)
		if err != nil {
			return nil, stop, err
		}
		var volume *cinder.Volume
		if len(mine) > 0 {
			volume = &mine[0]
			if volume.ID != f.created {
				f.created = "" // a run beside this one was first
			}
			if err := f.dropOthers(ctx, mine[1:]); err != nil {
				return nil, stop, err
			}
		}
		next := toProvision(volume, f.us())
		switch next {
		case reserve, connect, reconnect:
			return volume, next, f.checkSize(volume)
		case stop:
			return nil, stop, f.stuck(ctx, volume)
		case clear:
			// Of the volume that this run made, Cinder's reason is told; that of an earlier run has been told.
			if volume.ID == f.created {
				return nil, stop, f.stuck(ctx, volume)
			}
			err = f.cinder.Delete(ctx, volume.ID)
		case forget:
			err = f.forgetBegun(ctx, volume, nil)
		case create:
			err = f.createOnce(ctx)
		}
		if err == nil {
			err = p.pause(ctx)
		}
		if err != nil {
			return nil, stop, err
		}
	}
}

// createOnce asks for the volume, at most once in a run: a database that lags behind may not show it at once.
func (f *Flow) createOnce(ctx context.Context) error {
	if f.asked {
		return nil
	}
	zone, err := f.zone(ctx)
	if err != nil {
		return err
	}
	opts, hints, err := f.createOpts(ctx, zone)
	if err != nil {
		return err
	}
	f.asked, f.exists = true, true
	volume, err := f.cinder.Create(ctx, opts, hints)
	if err != nil {
		f.exists = sdk.ExitCode(err) != contract.ExitRefused
		return err
	}
	f.created, f.state = volume.ID, describe(volume)
	return nil
}

// dropOthers removes volumes that a run beside this one made, unless they are in use; that one will find ours.
func (f *Flow) dropOthers(ctx context.Context, others []cinder.Volume) error {
	for _, v := range others {
		if toDelete(&v, f.us()) == remove {
			if err := f.cinder.Delete(ctx, v.ID); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *Flow) checkSize(v *cinder.Volume) error {
	if wanted := sizeGiB(f.Request.SizeBytes); v.Size < wanted {
		return fmt.Errorf("cinder volume %s has %d GiB, less than the %d GiB that the claim asks for; extend it", v.ID, v.Size, wanted)
	}
	return nil
}

package flow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Provision makes the volume, or goes on with the one that an earlier run made. Before it refuses the request it removes a volume that
// turned out to be useless, since a refusal promises that nothing was made.
func (f *Flow) Provision(ctx context.Context) (*sdk.Volume, error) {
	defer f.end()
	volume, err := f.provision(ctx)
	if sdk.ExitCode(err) == contract.ExitRefused {
		err = f.undoRefused(ctx, err)
	}
	return volume, f.withState(ctx, err)
}

// undoRefused removes the volume that this run made. It keeps a volume of an earlier run, since that run may have created the
// PersistentVolume. Then it returns an error that is no refusal.
func (f *Flow) undoRefused(ctx context.Context, refused error) error {
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

// withoutCode is the error without its exit code.
func withoutCode(err error) error { return errors.New(err.Error()) }

func (f *Flow) provision(ctx context.Context) (*sdk.Volume, error) {
	if err := checkRequest(f.Request); err != nil {
		return nil, sdk.Refuse(err)
	}
	if err := f.checkNodes(); err != nil {
		return nil, sdk.Refuse(err)
	}
	label, zones, err := allowedZones(f.Request.AllowedTopologies)
	if err != nil {
		return nil, sdk.Refuse(err)
	}
	if err := f.checkNative(ctx); err != nil {
		return nil, err
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
	if f.perNode() {
		return f.made(ctx, volume, f.stagedSource(), label)
	}
	return f.attach(ctx, volume, next, label)
}

// stagedSource is a volume of flex-node. It names the Secret in any case: whether there is a password is known when the
// volume is attached.
func (f *Flow) stagedSource() (source corev1.PersistentVolumeSource) {
	name := f.Request.VolumeName
	source.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: f.NodeDriver, VolumeHandle: name, ReadOnly: manyReaders(f.Request),
		VolumeAttributes:   map[string]string{"stager": "iscsi"},
		NodeStageSecretRef: &corev1.SecretReference{Namespace: f.Cluster.Namespace, Name: name},
	}
	if !block(f.Request) {
		source.CSI.FSType = f.Parameters.FSType
	}
	return source
}

// attach takes a volume from "available", or from the state in which an earlier run left it, to "in-use", and returns it. label is the
// zone label of nodes, or empty. The zone is that of the Cinder volume, since the scheduler may have selected another node after an
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
	return f.made(ctx, volume, mapped.Source, label)
}

// made is the volume for its PersistentVolume.
func (f *Flow) made(
	ctx context.Context, volume *cinder.Volume, source corev1.PersistentVolumeSource, label string,
) (made *sdk.Volume, err error) {
	made = &sdk.Volume{
		Source:      source,
		Capacity:    *resource.NewQuantity(int64(volume.Size)*gib, resource.BinarySI),
		Annotations: f.annotations(volume),
	}
	if manyReaders(f.Request) {
		made.MountOptions = []string{"ro"} // of a PersistentVolume the kubelet heeds no readOnly of iscsi, fc and rbd
	}
	made.NodeAffinity, err = f.affinity(ctx, label, volume.AvailabilityZone)
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (f *Flow) annotations(volume *cinder.Volume) map[string]string {
	annotations := map[string]string{AnnVolumeID: volume.ID, AnnProject: f.project}
	if f.region != "" {
		annotations[AnnRegion] = f.region
	}
	if source := f.Request.Source; source != nil && source.Snapshot == "" {
		annotations[AnnCloneOf] = source.Namespace + "/" + source.Name
	}
	return annotations
}

// ready waits until the volume can be connected, and returns it with the next step.
func (f *Flow) ready(ctx context.Context) (*cinder.Volume, step, error) {
	var p backoff
	for {
		mine, err := f.findVolumes(ctx)
		if err != nil {
			return nil, stop, err
		}
		var volume *cinder.Volume
		if len(mine) > 0 {
			volume = &mine[0]
			if volume.ID != f.created {
				f.created = "" // another run was first
			}
			if err := f.removeDuplicates(ctx, mine[1:]); err != nil {
				return nil, stop, err
			}
		}
		next := toProvision(volume, f.attacher())
		switch next {
		case reserve, connect, reconnect, done:
			return volume, next, f.checkSize(volume)
		case stop:
			return nil, stop, f.stateError(ctx, volume)
		case clear:
			// Cinder's reason is reported for a volume of this run. For that of an earlier run it has been reported.
			if volume.ID == f.created {
				return nil, stop, f.stateError(ctx, volume)
			}
			err = f.cinder.Delete(ctx, volume.ID)
		case forget:
			err = f.release(ctx, volume)
		case create:
			err = f.createOnce(ctx)
		}
		if err == nil {
			err = p.wait(ctx)
		}
		if err != nil {
			return nil, stop, err
		}
	}
}

// createOnce requests the volume, at most once in a run, since a list of Cinder may lag behind and not show the volume at once.
func (f *Flow) createOnce(ctx context.Context) error {
	if f.requested {
		return nil
	}
	source, err := f.origin(ctx)
	if err != nil {
		return err
	}
	zone, err := f.zone(ctx, source)
	if err != nil {
		return err
	}
	opts, hints := f.createOpts(zone, source)
	f.requested, f.exists = true, true
	volume, err := f.cinder.Create(ctx, opts, hints)
	if err != nil {
		f.exists = sdk.ExitCode(err) != contract.ExitRefused
		return err
	}
	f.created, f.state = volume.ID, describe(volume)
	return nil
}

// removeDuplicates removes volumes that another run made at the same time, unless they are in use. The other run will find the volume of
// this one.
func (f *Flow) removeDuplicates(ctx context.Context, others []cinder.Volume) error {
	for _, v := range others {
		if toDelete(&v, f.attacher()) == remove {
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

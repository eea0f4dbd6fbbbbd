package flow

import (
	"context"
	"fmt"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// origin is what a new volume begins with: the data of a volume, or of a snapshot.
type origin struct {
	// what is for errors, such as "clone of claim team-a/data", and made is what the new volume is.
	what, made string
	// volume is the volume, or the one that the snapshot is of.
	volume *cinder.Volume
	// snapshot is the snapshot's ID, empty for a clone.
	snapshot string
	// size is in GiB.
	size int
}

func (o *origin) refuse(format string, args ...any) error {
	return sdk.Refuse(fmt.Errorf(o.what+": "+format, args...))
}

// origin is nil for an empty volume. Whose the original is was settled by its claim or VolumeSnapshot, and is checked here
// once more: the original of this provisioner let anybody clone any volume.
func (f *Flow) origin(ctx context.Context) (*origin, error) {
	s := f.Request.Source
	if s == nil {
		return nil, nil
	}

	o := &origin{what: "clone of claim " + s.Namespace + "/" + s.Name, made: "clone"}
	find := f.findOriginal
	if s.Snapshot != "" {
		o = &origin{what: "restore of snapshot " + s.Namespace + "/" + s.Name, made: "restored volume"}
		find = f.findSnapshot
	}
	if s.Namespace != f.Request.Claim.Namespace {
		return nil, o.refuse("only what is in the same namespace can be the source, and this claim is in %s",
			f.Request.Claim.Namespace)
	}
	status, err := find(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := f.checkOrigin(ctx, o); err != nil {
		return nil, err
	}
	if status != "" {
		return nil, sdk.TryAgain(fmt.Errorf("%s: %s", o.what, status))
	}

	return o, nil
}

// findOriginal finds the volume to clone. status says what it is as long as it cannot be cloned.
func (f *Flow) findOriginal(ctx context.Context, o *origin) (status string, err error) {
	s := f.Request.Source
	switch {
	case !f.Parameters.SmartClone:
		return "", o.refuse("class %s does not allow clones; ask its administrator for parameter smartclone: \"true\"", f.Request.StorageClass)
	case s.VolumeName == "":
		return "", o.refuse("it is not bound yet")
	}
	found, err := f.cinder.Find(ctx, s.VolumeName)
	if err != nil {
		return "", err
	}
	found = slices.DeleteFunc(found, func(v cinder.Volume) bool {
		return "pvc-"+v.Metadata[metaClaimUID] != s.VolumeName
	})
	if len(found) != 1 {
		return "", o.refuse("its volume %s is not one of this provisioner in the same cloud and project", s.VolumeName)
	}

	o.volume, o.size = &found[0], found[0].Size
	if o.volume.Status != statusAvailable && o.volume.Status != statusInUse {
		status = describe(o.volume)
	}

	return status, nil
}

// findSnapshot finds the snapshot to restore, and the volume that it is of, which Cinder keeps as long as it has the
// snapshot. status says what the snapshot is as long as it cannot be restored.
func (f *Flow) findSnapshot(ctx context.Context, o *origin) (status string, err error) {
	handle, state := f.Request.Source.Snapshot, f.state
	found, err := f.findSnapshots(ctx, handle)
	f.state = state // which is the volume's
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", o.refuse("cinder has no snapshot %s in this project; was it deleted there?", handle)
	}
	snapshot := &found[0]
	if failure(*snapshot) >= 0 {
		return "", o.refuse("%s", describeSnapshot(snapshot))
	}
	o.volume, err = f.cinder.Show(ctx, snapshot.VolumeID)
	if err != nil {
		return "", err
	}
	if o.volume == nil {
		return "", o.refuse("cinder has no volume %s, of which snapshot %s is", snapshot.VolumeID, snapshot.ID)
	}

	o.snapshot, o.size = snapshot.ID, snapshot.Size
	if snapshot.Status != statusAvailable {
		status = describeSnapshot(snapshot)
	}

	return status, nil
}

// checkOrigin refuses what cannot become the claim's volume.
func (f *Flow) checkOrigin(ctx context.Context, o *origin) error {
	size := sizeGiB(f.Request.SizeBytes)
	volumeType, err := f.typeName(ctx, o.volume.VolumeType)
	if err != nil {
		return err
	}

	switch {
	case o.size > size:
		return o.refuse("it has %d GiB, and a %s cannot be smaller; ask for at least that", o.size, o.made)
	case volumeType != o.volume.VolumeType:
		return o.refuse("it is of volume type %s, and this class makes %s; use a class of the same type",
			form.Quote(o.volume.VolumeType), volumeType)
	case o.size < size && !f.growsFileSystems():
		return o.refuse("it has %d GiB, and this claim asks for %d: neither Kubernetes nor a provisioner pod can grow "+
			"the file system of the %s; ask for %dGi, use volumeMode Block, or copy the data to a larger claim",
			o.size, size, o.made, o.size)
	}

	return nil
}

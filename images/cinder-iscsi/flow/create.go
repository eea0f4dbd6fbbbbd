package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// createOpts describe the volume to be made.
func (f *Flow) createOpts(ctx context.Context, zone string) (cinder.CreateOpts, *cinder.Hints, error) {
	p, r := f.Parameters, f.Request
	metadata := map[string]string{
		metaClaimUID: r.Claim.UID,
		metaClaim:    r.Claim.Namespace + "/" + r.Claim.Name,
		metaClass:    r.StorageClass,
		metaCluster:  f.Properties.Cluster,
	}
	for key, value := range metadata {
		metadata[key] = value[:min(255, len(value))] // Cinder's limit; a claim's name alone reaches 253
	}
	maps.Copy(metadata, p.Metadata)
	opts := cinder.CreateOpts{
		Name: r.VolumeName, Size: sizeGiB(r.SizeBytes), VolumeType: p.Type, AvailabilityZone: zone, Metadata: metadata,
	}
	if f.Request.Source != nil {
		source, err := f.cloneSource(ctx, opts)
		if err != nil {
			return opts, nil, err
		}
		opts.SourceVolID = source
	}
	if len(p.SameHost) == 0 && len(p.DifferentHost) == 0 && p.SchedulerQuery == "" {
		return opts, nil, nil
	}
	return opts, &cinder.Hints{SameHost: p.SameHost, DifferentHost: p.DifferentHost, Query: p.SchedulerQuery}, nil
}

// cloneSource is the ID of the volume to clone. Whose it is was settled by its claim, and is checked here once more: the
// original of this provisioner let anybody clone any volume.
func (f *Flow) cloneSource(ctx context.Context, opts cinder.CreateOpts) (string, error) {
	s := f.Request.Source
	claim := s.Namespace + "/" + s.Name
	refuse := func(format string, args ...any) (string, error) {
		return "", sdk.Refuse(fmt.Errorf("clone of claim %s: "+format, append([]any{claim}, args...)...))
	}
	switch {
	case s.Namespace != f.Request.Claim.Namespace:
		return refuse("only claims of the same namespace can be cloned, and this one is in %s", f.Request.Claim.Namespace)
	case !f.Parameters.SmartClone:
		return refuse("class %s does not allow clones; ask its administrator for parameter smartclone: \"true\"", f.Request.StorageClass)
	case s.VolumeName == "":
		return refuse("it is not bound yet")
	}
	found, err := f.cinder.Find(ctx, s.VolumeName)
	if err != nil {
		return "", err
	}
	found = slices.DeleteFunc(found, func(v cinder.Volume) bool {
		return "pvc-"+v.Metadata[metaClaimUID] != s.VolumeName
	})
	if len(found) != 1 {
		return refuse("its volume %s is not one of this provisioner in the same cloud and project", s.VolumeName)
	}
	source := found[0]
	switch {
	case source.Size > opts.Size:
		return refuse("it has %d GiB, and a clone cannot be smaller; ask for at least that", source.Size)
	case opts.VolumeType != "" && source.VolumeType != opts.VolumeType:
		return refuse("it is of volume type %s, and this class makes %s; use a class of the same type", form.Quote(source.VolumeType), opts.VolumeType)
	case source.Status != statusAvailable && source.Status != statusInUse:
		return "", sdk.TryAgain(fmt.Errorf("clone of claim %s: %s", claim, describe(&source)))
	}
	return source.ID, nil
}

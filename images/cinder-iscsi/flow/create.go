package flow

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// createOpts describe the volume to be made. source is the volume to clone, nil for none.
func (f *Flow) createOpts(zone string, source *cinder.Volume) (cinder.CreateOpts, *cinder.Hints) {
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
	if source != nil {
		opts.SourceVolID = source.ID
	}
	if len(p.SameHost) == 0 && len(p.DifferentHost) == 0 && p.SchedulerQuery == "" {
		return opts, nil
	}
	return opts, &cinder.Hints{SameHost: p.SameHost, DifferentHost: p.DifferentHost, Query: p.SchedulerQuery}
}

// cloneSource is the volume to clone, nil for none. Whose it is was settled by its claim, and is checked here once
// more: the original of this provisioner let anybody clone any volume.
func (f *Flow) cloneSource(ctx context.Context) (*cinder.Volume, error) {
	s := f.Request.Source
	if s == nil {
		return nil, nil
	}
	claim := s.Namespace + "/" + s.Name
	refuse := func(format string, args ...any) (*cinder.Volume, error) {
		return nil, sdk.Refuse(fmt.Errorf("clone of claim %s: "+format, append([]any{claim}, args...)...))
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
		return nil, err
	}
	found = slices.DeleteFunc(found, func(v cinder.Volume) bool {
		return "pvc-"+v.Metadata[metaClaimUID] != s.VolumeName
	})
	if len(found) != 1 {
		return refuse("its volume %s is not one of this provisioner in the same cloud and project", s.VolumeName)
	}
	source, size := found[0], sizeGiB(f.Request.SizeBytes)
	volumeType, err := f.typeName(ctx, source.VolumeType)
	if err != nil {
		return nil, err
	}

	switch {
	case source.Size > size:
		return refuse("it has %d GiB, and a clone cannot be smaller; ask for at least that", source.Size)
	case volumeType != source.VolumeType:
		return refuse("it is of volume type %s, and this class makes %s; use a class of the same type",
			form.Quote(source.VolumeType), volumeType)
	case source.Size < size && !f.growsFileSystems():
		return refuse("it has %d GiB, and this claim asks for %d: neither Kubernetes nor a provisioner pod can grow "+
			"the file system of the clone; ask for %dGi, use volumeMode Block, or copy the data to a larger claim",
			source.Size, size, source.Size)
	case source.Status != statusAvailable && source.Status != statusInUse:
		return nil, sdk.TryAgain(fmt.Errorf("clone of claim %s: %s", claim, describe(&source)))
	}
	return &source, nil
}

// growsFileSystems reports whether the file system of a larger clone grows. It has the size of the original's, and only
// ceph-csi makes it larger when it mounts it. A raw device has none.
func (f *Flow) growsFileSystems() bool {
	return block(f.Request) || f.Parameters.CephClusterID != "" && f.Parameters.RBD == parameters.RBDCephCSI
}

// typeName is the name of the class's volume type, which Cinder answers for volumes, or byDefault if the class has
// none.
func (f *Flow) typeName(ctx context.Context, byDefault string) (string, error) {
	wanted := cmp.Or(f.Parameters.Type, byDefault)
	if _, err := form.UUID("", wanted); err != nil {
		return wanted, nil
	}

	return f.cinder.TypeName(ctx, wanted)
}

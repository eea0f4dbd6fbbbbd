package flow

import (
	"cmp"
	"context"
	"maps"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// createOpts describe the volume to be made. source is nil for an empty one.
func (f *Flow) createOpts(zone string, source *origin) (cinder.CreateOpts, *cinder.Hints) {
	p, r := f.Parameters, f.Request
	metadata := limited(map[string]string{
		metaClaimUID: r.Claim.UID,
		metaClaim:    r.Claim.Namespace + "/" + r.Claim.Name,
		metaClass:    r.StorageClass,
		metaCluster:  f.Properties.Cluster,
	})
	maps.Copy(metadata, p.Metadata)
	opts := cinder.CreateOpts{
		Name: r.VolumeName, Size: sizeGiB(r.SizeBytes), VolumeType: p.Type, AvailabilityZone: zone, Metadata: metadata,
	}
	switch {
	case source == nil:
	case source.snapshot != "":
		opts.SnapshotID = source.snapshot
	default:
		opts.SourceVolID = source.volume.ID
	}
	if len(p.SameHost) == 0 && len(p.DifferentHost) == 0 && p.SchedulerQuery == "" {
		return opts, nil
	}
	return opts, &cinder.Hints{SameHost: p.SameHost, DifferentHost: p.DifferentHost, Query: p.SchedulerQuery}
}

// limited are metadata whose values Cinder accepts: a claim's name alone reaches 253 bytes.
func limited(metadata map[string]string) map[string]string {
	for key, value := range metadata {
		metadata[key] = value[:min(255, len(value))]
	}

	return metadata
}

// growsFileSystems reports whether the file system of a larger clone grows. It has the size of the original's, and only
// flex-node and ceph-csi make it larger when they mount it. A raw device has none.
func (f *Flow) growsFileSystems() bool {
	return block(f.Request) || f.perNode() || f.Parameters.CephClusterID != "" && f.Parameters.RBD == parameters.RBDCephCSI
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

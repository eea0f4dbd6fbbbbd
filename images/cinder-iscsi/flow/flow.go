package flow

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// Flow is a request, with all that is needed to serve it.
type Flow struct {
	// Connect logs in. It is called once, after all checks that need no connection.
	Connect func(context.Context) (*cloud.Client, error)
	Cluster *cluster.Client
	// SetLocation reports the location of this attempt; see sdk.SetLocation.
	SetLocation func(location string) error
	Log         *slog.Logger
	Request     contract.Request
	Parameters  parameters.Parameters
	Properties  parameters.Properties
	// NodeDriver is the CSI driver of flex-node, which mounts the volumes that nodes attach.
	NodeDriver string

	cinder *cinder.Client
	close  func()
	// project and region are those of the credentials.
	project, region string
	// requested reports whether this run has requested a volume. created is the ID of that volume, unless the run goes on with another one.
	requested bool
	created   string
	// exists reports whether there may be a volume.
	exists bool
	// state describes the volume as it was last read, for the message of a run that ends before it is done.
	state string
	// begun is an unfinished attachment, and how long Cinder may take for it.
	begun struct {
		id    string
		until time.Time
	}
	// readOnly reports whether the volume that a node attaches was made for reading alone.
	readOnly bool
	// written is what this run wrote into the Secret last, nil for nothing yet.
	written mapper.Secret
}

func (f *Flow) open(ctx context.Context) error {
	client, err := f.Connect(ctx)
	if err != nil {
		return cinder.Explain(cinder.Login, "", err)
	}
	f.close = client.Close
	f.project, f.region = client.Project, client.Region
	f.cinder = cinder.New(client)
	f.cinder.Note = func(call cinder.Call, took time.Duration, err error) {
		f.Log.Info(string(call), "volume", f.Request.VolumeName, "took", took.Round(time.Millisecond), "ok", err == nil)
	}
	return nil
}

// location is the location of this attempt: its project and region.
func (f *Flow) location() string {
	place := url.Values{"project": {f.project}}
	if f.region != "" {
		place.Set("region", f.region)
	}
	return place.Encode()
}

// Keys of the metadata by which the provisioner recognizes its volumes.
const (
	metaClaimUID = "flex-provisioner.io/claim-uid"
	metaClaim    = "flex-provisioner.io/claim"
	metaClass    = "flex-provisioner.io/storage-class"
	metaCluster  = "flex-provisioner.io/cluster"
)

// Annotations of the PersistentVolume, for people and for the delete.
const (
	// AnnVolumeID is the ID of the Cinder volume.
	AnnVolumeID = "cinder.openstack.org/volume-id"
	// AnnProject and AnnRegion are the project and region of the Cinder volume. With credentials for others it would seem to be gone.
	AnnProject = "cinder.openstack.org/project-id"
	AnnRegion  = "cinder.openstack.org/region"
	// AnnCloneOf is the claim that the volume is a clone of, namespace/name.
	AnnCloneOf = "cinder.openstack.org/clone-of"
)

func (f *Flow) end() {
	if f.close != nil {
		f.close()
	}
}

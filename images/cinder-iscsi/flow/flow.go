package flow

import (
	"context"
	"log/slog"
	"net/url"
	"time"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cloud"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cluster"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// Flow is one request, and all that is needed to answer it.
type Flow struct {
	// Connect logs in. It is called once, when all that can be checked before has been.
	Connect func(context.Context) (*cloud.Client, error)
	Cluster *cluster.Client
	// SetLocation remembers for later attempts where this one works; see sdk.SetLocation.
	SetLocation func(location string) error
	Log         *slog.Logger
	Request     contract.Request
	Parameters  parameters.Parameters
	Properties  parameters.Properties

	cinder *cinder.Client
	close  func()
	// project and region are whose volumes Cinder shows us.
	project, region string
	// asked reports whether this run has asked for a volume; created is that volume's ID, as long as it is the one in use.
	asked   bool
	created string
	// exists reports whether there may be a volume.
	exists bool
	// state is what was last seen, for the message of a run that has to give up.
	state string
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

// location is project and region as attempts without a volume remember them.
func (f *Flow) location() string {
	place := url.Values{"project": {f.project}}
	if f.region != "" {
		place.Set("region", f.region)
	}
	return place.Encode()
}

// Keys of the metadata by which volumes are known as ours.
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
	// AnnProject and AnnRegion are where it is: to credentials for another place it would seem to be gone.
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

package mapper

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// Input has what a volume source needs besides the connection.
type Input struct {
	// Name is the name of the PersistentVolume, and of the Secret if there is one.
	Name string
	// VolumeID is the ID of the Cinder volume.
	VolumeID string
	// Block reports whether the claim has volumeMode Block, so that the source has no file system.
	Block bool
	// ReadOnly reports whether several nodes mount the file system, so that none may write to it.
	ReadOnly bool
	// ManyNodes reports whether several nodes may use the volume at the same time.
	ManyNodes bool
	// SecretNamespace is the namespace of the Secret.
	SecretNamespace string
	// Initiator is the IQN of the connection, with which the kubelet has to log in. It is empty if the nodes use their own.
	Initiator string
	// PerVolume reports whether only this volume uses Initiator. Then several volumes cannot share a target.
	PerVolume bool
	// Target is the iSCSI target by which another node has the volume, or empty. If the volume is there for this node, too,
	// it is taken: some drivers choose one of several targets anew for each node.
	Target string
	// HostNQN and HostID are the NVMe host that the connection was made for.
	HostNQN, HostID string
	// Parameters are the StorageClass's.
	Parameters parameters.Parameters
}

// Mapped is a native volume.
type Mapped struct {
	Source corev1.PersistentVolumeSource
	// Secret is the content of the Secret that Source refers to, nil for none. It is never printed.
	Secret Secret
}

// Secret is the content of a Secret. Its printed form shows the keys only.
type Secret map[string]string

// String hides the values.
func (s Secret) String() string { return fmt.Sprint(slices.Sorted(maps.Keys(s))) }

// GoString hides the values.
func (s Secret) GoString() string { return s.String() }

// Mapper maps connections of one kind.
type Mapper interface {
	// Map makes the volume source, and the content of its Secret. The error says why there can be none.
	Map(c Connection, in Input) (Mapped, error)
}

// mappers has the Mappers by driver_volume_type in lower case, since one Cinder driver writes iSCSI.
var mappers = map[string]Mapper{
	"iscsi":         iscsi{},
	"iser":          iscsi{transport: "iser"},
	"fibre_channel": fibreChannel{},
	"rbd":           rbd{},
	"nvmeof":        nvme{},
}

// refused has reasons of their own for kinds that are not supported.
var refused = map[string]string{
	"nfs": "the volume is a file on an export that holds every project's volumes, and mounting it would show them all",
}

// Map makes the volume for a connection of any kind.
func Map(c Connection, in Input) (Mapped, error) {
	mapper, known := mappers[c.Type]
	switch {
	case c.Encrypted:
		return Mapped{}, encrypted(in)
	case refused[c.Type] != "":
		return Mapped{}, fmt.Errorf("cinder volume %s has a connection of type %s: %s; use a volume type with another backend", in.VolumeID, form.Quote(c.Type), refused[c.Type])
	case !known:
		return Mapped{}, fmt.Errorf("cinder volume %s has a connection of type %s, which no native volume can use; use a volume type with one of %s",
			in.VolumeID, form.Quote(c.Type), strings.Join(slices.Sorted(maps.Keys(mappers)), ", "))
	}
	mapped, err := mapper.Map(c, in)
	if err != nil {
		return Mapped{}, fmt.Errorf("map %s connection of cinder volume %s: %w", c.Type, in.VolumeID, err)
	}
	return mapped, nil
}

func encrypted(in Input) error {
	return fmt.Errorf("cinder volume %s is encrypted: only a host with the key could read it, and a node would format it; "+
		"use a volume type without encryption", in.VolumeID)
}

// fsType is empty for raw devices, and if the class leaves the choice to the kubelet.
func (in Input) fsType() string {
	if in.Block {
		return ""
	}
	return in.Parameters.FSType
}

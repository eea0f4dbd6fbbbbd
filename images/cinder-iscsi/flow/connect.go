package flow

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// connect exports the volume to all its connectors, and maps it. It can be repeated until there is a PersistentVolume. Some arrays return new
// credentials each time, and the last ones are valid.
func (f *Flow) connect(ctx context.Context, id string) (mapped mapper.Mapped, readOnly bool, err error) {
	var first any
	in := f.mapperInput(id)
	for i, connector := range f.connectors() {
		data, err := f.cinder.Connect(ctx, id, connector)
		if err != nil {
			return mapper.Mapped{}, false, err
		}
		connection, err := mapper.Decode(data)
		if err != nil {
			return mapper.Mapped{}, false, sdk.Refuse(fmt.Errorf("connect cinder volume %s: %w", id, err))
		}
		this, err := mapper.Map(connection, in)
		switch {
		case err != nil:
			return mapper.Mapped{}, false, sdk.Refuse(err)
		case i == 0:
			mapped, first = this, connector["host"]
			if mapped.Source.ISCSI != nil {
				in.Target = mapped.Source.ISCSI.IQN
			}
		}
		if what := difference(mapped, this); what != "" {
			return mapper.Mapped{}, false, sdk.Refuse(fmt.Errorf("cinder volume %s has another %s for node %v than "+
				"for %v, and a volume of Kubernetes can have one; use a backend or an "+
				"initiatorMode that gives all nodes the same", id, what, connector["host"], first))
		}

		if mapped.Source.FC != nil {
			mapped.Source.FC.TargetWWNs = common(mapped.Source, this.Source)
		}
		readOnly = readOnly || connection.ReadOnly
	}
	return mapped, readOnly, nil
}

// difference names what the volume of one node says that is not so for another node, empty for nothing. The portals of an
// iSCSI target or an NVMe subsystem may be any, since each leads to it.
func difference(a, b mapper.Mapped) string {
	one, other := a.Source, b.Source
	switch {
	case one.ISCSI != nil && other.ISCSI != nil:
		switch {
		case one.ISCSI.IQN != other.ISCSI.IQN:
			return "target"
		case one.ISCSI.Lun != other.ISCSI.Lun:
			return "LUN"
		case !maps.Equal(a.Secret, b.Secret):
			return "secret"
		}
		return ""
	case one.FC != nil && other.FC != nil:
		switch {
		case *one.FC.Lun != *other.FC.Lun:
			return "LUN"
		case len(common(one, other)) == 0:
			return "target"
		}
		return ""
	case one.ISCSI != nil || one.FC != nil || other.ISCSI != nil || other.FC != nil:
		return "kind of connection"
	case !reflect.DeepEqual(withoutPortal(one), withoutPortal(other)):
		return "target"
	}

	return ""
}

// withoutPortal is the volume without the portal of NVMe, of which some drivers give each node another one first.
func withoutPortal(source corev1.PersistentVolumeSource) corev1.PersistentVolumeSource {
	source = *source.DeepCopy()
	if source.CSI != nil {
		delete(source.CSI.VolumeAttributes, "targetTrAddr")
		delete(source.CSI.VolumeAttributes, "targetTrPort")
	}

	return source
}

// common are the Fibre Channel targets by which both nodes have the volume. A node that is told fewer may have another
// volume at the others.
func common(one, other corev1.PersistentVolumeSource) []string {
	both := slices.Clone(one.FC.TargetWWNs)
	return slices.DeleteFunc(both, func(wwn string) bool { return !slices.Contains(other.FC.TargetWWNs, wwn) })
}

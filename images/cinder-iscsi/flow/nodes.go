package flow

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
	"github.com/flex-provisioner/flex-provisioner/sdk"
)

// checkNodes refuses what says nothing of the nodes that connect, or nothing that an array could use.
func (f *Flow) checkNodes() error {
	if err := f.Properties.Doubts.ToAggregate(); err != nil {
		return err
	}
	if len(f.Properties.WWPNs) > 0 {
		return errors.New("property wwpns has names without a node, and an array would take all of them for one " +
			"host; write node=WWPN and node=WWNN, and set parameter initiatorMode to node")
	}
	if f.Parameters.InitiatorMode == parameters.Node && len(f.Properties.Nodes) == 0 {
		return errors.New("parameter initiatorMode is node, but no property has nodes; list them in initiators, in " +
			"wwpns and wwnns, or in nqns")
	}

	return nil
}

// affinity limits the volume to nodes of its zone, if label is the zone's, and to the nodes that it was exported to. It
// is nil if any node can use the volume.
func (f *Flow) affinity(ctx context.Context, label, zone string) (*corev1.VolumeNodeAffinity, error) {
	var all []corev1.NodeSelectorRequirement
	if label != "" {
		all = append(all, in(label, zone))
	}
	if f.Parameters.InitiatorMode == parameters.Node {
		hostnames, err := f.hostnames(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, in(corev1.LabelHostname, hostnames...))
	}
	if len(all) == 0 {
		return nil, nil
	}

	affinity := sdk.NodeAffinity("", "")
	affinity.Required.NodeSelectorTerms[0].MatchExpressions = all
	return affinity, nil
}

func in(label string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: label, Operator: corev1.NodeSelectorOpIn, Values: values}
}

// hostnames are the labels of the nodes that the volume is exported to. A node that is not there has the label that
// most nodes get, its name.
func (f *Flow) hostnames(ctx context.Context) ([]string, error) {
	labels, err := f.Cluster.NodeLabels(ctx, corev1.LabelHostname)
	if err != nil {
		return nil, err
	}

	var values []string
	for _, node := range f.Properties.Nodes {
		value := labels[node.Name]
		if value == "" {
			value = node.Name
		}
		values = append(values, value)
	}
	return values, nil
}

package flow

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// iqnPrefix is the prefix of initiator names in the mode "per-volume".
const iqnPrefix = "iqn.2026-01.io.flex-provisioner:"

// host is the host name of the volume's attachment in Cinder. It is derived from the claim, so that every later run recognizes the
// attachment. Some arrays allow no more than 23 characters.
func (f *Flow) host() string {
	id := strings.ReplaceAll(f.Request.Claim.UID, "-", "")
	return "k8s-" + id[:min(18, len(id))]
}

// device is the device name of the attachment in Cinder. Runs recognize their attachment by it.
func (f *Flow) device() string { return "/kubernetes/" + f.Request.VolumeName }

func (f *Flow) attacher() attacher { return attacher{f.host(), f.device(), f.perNode()} }

// nqn is the name of the NVMe host for nodes that connect with no name of their own. Each volume has its own.
func (f *Flow) nqn() string { return "nqn.2014-08.org.nvmexpress:uuid:" + f.Request.Claim.UID }

// initiator is the name that the kubelet has to log in with; empty for the nodes' own.
func (f *Flow) initiator() string {
	switch f.Parameters.InitiatorMode {
	case parameters.Fixed:
		return f.Parameters.Initiator
	case parameters.Node:
		return ""
	}
	return iqnPrefix + f.Request.VolumeName
}

// connectors lists the connectors of the volume: one, or in the initiator mode "node" one for each node. They are the same in every run.
// With "attach", Cinder keeps the connectors itself.
func (f *Flow) connectors() []cinder.Connector {
	if f.perNode() {
		return nil
	}
	if f.Parameters.InitiatorMode != parameters.Node {
		host := f.host()
		if f.Parameters.InitiatorMode == parameters.Fixed {
			host = "k8s-" + f.Properties.Cluster
		}
		return []cinder.Connector{f.connector(host, f.initiator())}
	}
	var all []cinder.Connector
	for _, node := range f.Properties.Nodes {
		all = append(all, f.connectorOf(node))
	}
	return all
}

func (f *Flow) connector(host, initiator string) cinder.Connector {
	c := cinder.Connector{
		"host": host, "uuid": uuidOf(host), "system uuid": uuidOf(host),
		"initiator": initiator, "nqn": f.nqn(), "ip": f.Parameters.ConnectorIP,
		"multipath": f.Parameters.Multipath, "platform": "x86_64", "os_type": "linux",
	}
	if len(f.Properties.WWPNs) > 0 {
		c["wwpns"], c["wwnns"] = f.Properties.WWPNs, f.Properties.WWNNs
	}
	return c
}

// connectorOf is the connector of a node, with the names that it has. Some drivers export to one port of the node
// without multipath.
func (f *Flow) connectorOf(node parameters.Host) cinder.Connector {
	c := f.connector(node.Name, node.IQN)
	c["multipath"] = true
	if node.IQN == "" {
		delete(c, "initiator")
	}
	if node.NQN != "" {
		c["nqn"] = node.NQN
	}
	if len(node.WWPNs) > 0 {
		c["wwpns"] = node.WWPNs
	}
	if len(node.WWNNs) > 0 {
		c["wwnns"] = node.WWNNs
	}

	return c
}

// ownNQNs reports whether the nodes connect with NVMe names of their own.
func (f *Flow) ownNQNs() bool {
	return f.Parameters.InitiatorMode == parameters.Node &&
		slices.ContainsFunc(f.Properties.Nodes, func(n parameters.Host) bool { return n.NQN != "" })
}

// uuidOf is the UUID of a host, which some backends know hosts by. It is made of the name, so that it lasts as long.
func uuidOf(host string) string {
	sum := sha256.Sum256([]byte(host))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80 // version 8 of RFC 9562

	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func (f *Flow) mapperInput(volumeID string) mapper.Input {
	in := mapper.Input{
		Name: f.Request.VolumeName, VolumeID: volumeID, Block: block(f.Request),
		ReadOnly: manyReaders(f.Request), ManyNodes: manyNodes(f.Request),
		SecretNamespace: f.Cluster.Namespace,
		Initiator:       f.initiator(), PerVolume: f.Parameters.InitiatorMode == parameters.PerVolume,
		Parameters: f.Parameters,
	}
	if !f.ownNQNs() {
		in.HostNQN, in.HostID = f.nqn(), f.Request.Claim.UID
	}

	return in
}

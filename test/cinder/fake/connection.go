package fake

import (
	"fmt"
	"maps"
	"strings"
)

// A Connection is what a backend gives to those who connect to one of its volumes.
type Connection struct {
	kind  string
	needs []string // properties that the connector must have
	data  func(v Volume, connector map[string]any) map[string]any
}

// Raw connects with this driver_volume_type and data, whatever the connector is. Where data holds "volume_id" or others of
// Cinder's additions, they win.
func Raw(kind string, data map[string]any) Connection {
	return Connection{kind: kind, data: func(Volume, map[string]any) map[string]any { return maps.Clone(data) }}
}

// With adds to the data, or replaces: With("target_lun", 300), With("encrypted", true).
func (c Connection) With(key string, value any) Connection {
	data := c.data
	c.data = func(v Volume, connector map[string]any) map[string]any {
		more := data(v, connector)
		more[key] = value
		return more
	}
	return c
}

// Needs lets connectors without these properties be refused.
func (c Connection) Needs(properties ...string) Connection { c.needs = properties; return c }

// check refuses a connector that lacks something.
func (c Connection) check(connector map[string]any) answer {
	var missing []string
	for _, name := range c.needs {
		if connector[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return invalidInput("Connector doesn't have required information: %s", strings.Join(missing, ", "))
	}
	return answer{}
}

// info is connection_info in its nested form, with what Cinder's manager adds for every backend.
func (c Connection) info(v Volume, connector map[string]any) object {
	data := object{"qos_specs": nil, "access_mode": "rw", "encrypted": v.Encrypted, "cacheable": false}
	maps.Copy(data, c.data(v, connector))
	return object{"driver_volume_type": c.kind, "data": data}
}

// Portal is where ISCSI exports volumes.
const Portal = "127.0.0.1:3260"

// ISCSI is Cinder's reference backend: one target a volume, LUN 1, CHAP. A connector with "multipath" true gets the plural
// keys as well, with one portal.
func ISCSI() Connection { return ISCSIMultipath(Portal) }

// ISCSIMultipath is ISCSI with several portals of one target.
func ISCSIMultipath(portals ...string) Connection {
	return Connection{kind: "iscsi", needs: []string{"initiator"}, data: func(v Volume, connector map[string]any) map[string]any {
		iqn := "iqn.2010-10.org.openstack:volume-" + v.ID
		data := map[string]any{
			"target_discovered": false, "target_portal": portals[0], "target_iqn": iqn, "target_lun": 1, "volume_id": v.ID,
			"auth_method": "CHAP", "auth_username": v.CHAPUser, "auth_password": v.CHAPPassword,
		}
		if connector["multipath"] == true {
			var all, iqns, luns list
			for _, p := range portals {
				all, iqns, luns = append(all, p), append(iqns, iqn), append(luns, 1)
			}
			data["target_portals"], data["target_iqns"], data["target_luns"] = all, iqns, luns
		}
		return data
	}}
}

// ISCSIShared is an array with one target for all volumes: the LUN tells them apart.
func ISCSIShared(iqn string) Connection {
	luns := map[string]int{}
	return Connection{kind: "iscsi", needs: []string{"initiator"}, data: func(v Volume, _ map[string]any) map[string]any {
		if luns[v.ID] == 0 {
			luns[v.ID] = len(luns) + 1
		}
		return map[string]any{"target_discovered": false, "target_portal": Portal, "target_iqn": iqn, "target_lun": luns[v.ID], "volume_id": v.ID}
	}}
}

// FibreChannel is an array of two ports. It needs wwpns and wwnns in the connector.
func FibreChannel() Connection {
	return Connection{kind: "fibre_channel", needs: []string{"wwpns", "wwnns"}, data: func(v Volume, connector map[string]any) map[string]any {
		wwns := list{"500A098280FEEBA5", "50:0a:09:82:80:fe:eb:a6"}
		zones := object{}
		if ports, ok := connector["wwpns"].([]any); ok {
			for _, p := range ports {
				zones[fmt.Sprint(p)] = wwns
			}
		}
		return map[string]any{"target_discovered": true, "target_lun": 1, "target_luns": list{1, 1}, "target_wwn": wwns, "target_wwns": wwns,
			"initiator_target_map": zones, "discard": true, "addressing_mode": "SAM2", "volume_id": v.ID}
	}}
}

// RBD is Ceph, with cephx.
func RBD() Connection {
	return Connection{kind: "rbd", data: func(v Volume, _ map[string]any) map[string]any {
		return map[string]any{"name": "volumes/volume-" + v.ID, "hosts": list{"127.0.0.1"}, "ports": list{"16789"}, "cluster_name": "ceph",
			"auth_enabled": true, "auth_username": "cinder", "secret_type": "ceph", "secret_uuid": "5a8b1f2c-0000-4000-8000-000000000001",
			"volume_id": v.ID, "discard": true}
	}}
}

// NVMeOF2 is NVMe over TCP in the second form of connection_info, with portals and the namespace's UUID.
func NVMeOF2() Connection {
	return Connection{kind: "nvmeof", needs: []string{"nqn"}, data: func(v Volume, _ map[string]any) map[string]any {
		return map[string]any{"target_nqn": "nqn.2010-10.org.openstack:volume-" + v.ID, "vol_uuid": v.ID,
			"portals": list{list{"127.0.0.1", 4420, "tcp"}, list{"127.0.0.2", 4420, "tcp"}}, "ns_id": 10}
	}}
}

// NFS is Cinder's nfs: a disk image on a share that holds those of all projects.
func NFS() Connection {
	return Connection{kind: "nfs", data: func(v Volume, _ map[string]any) map[string]any {
		return map[string]any{"export": "10.0.0.5:/vol", "name": "volume-" + v.ID, "options": nil, "format": "raw"}
	}}
}

package fake

import (
	"maps"
	"strings"
)

// A Connection is what a backend gives to those who connect to one of its volumes.
type Connection struct {
	kind  string
	needs []string // properties that the connector must have
	data  func(v *volume, connector map[string]any) object
}

// Raw connects with this driver_volume_type and data, whatever the connector is. Where data holds "encrypted" or others of
// Cinder's additions, they win.
func Raw(kind string, data map[string]any) Connection {
	return Connection{kind: kind, data: func(*volume, map[string]any) object { return data }}
}

// check refuses a connector that lacks something.
func (c Connection) check(connector map[string]any) answer {
	if text := c.lacks(connector); text != "" {
		return invalidInput("%s", text)
	}
	return answer{}
}

// lacks says what the connector lacks, and nothing where it lacks nothing.
func (c Connection) lacks(connector map[string]any) string {
	var missing []string
	for _, name := range c.needs {
		if connector[name] == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return ""
	}
	return "Connector doesn't have required information: " + strings.Join(missing, ", ")
}

// info is connection_info in its nested form, with what Cinder's manager adds for every backend.
func (c Connection) info(v *volume, connector map[string]any) object {
	data := object{"qos_specs": nil, "access_mode": "rw", "encrypted": v.Encrypted, "cacheable": false}
	maps.Copy(data, c.data(v, connector))
	return object{"driver_volume_type": c.kind, "data": data}
}

// flat is connection_info in the flat form of attachments.
func (c Connection) flat(v *volume, connector map[string]any, attachment string) object {
	info := c.info(v, connector)
	data, _ := info["data"].(object)
	flat := maps.Clone(data)
	flat["driver_volume_type"], flat["attachment_id"] = c.kind, attachment
	return flat
}

// ISCSI is Cinder's reference backend: one target a volume, LUN 1, CHAP. A connector with "multipath" true gets the plural
// keys as well, with one portal.
func ISCSI() Connection {
	const portal = "127.0.0.1:3260"
	return Connection{kind: "iscsi", needs: []string{"initiator"}, data: func(v *volume, connector map[string]any) object {
		iqn := "iqn.2010-10.org.openstack:volume-" + v.ID
		data := object{
			"target_discovered": false, "target_portal": portal, "target_iqn": iqn, "target_lun": 1, "volume_id": v.ID,
			"auth_method": "CHAP", "auth_username": v.CHAPUser, "auth_password": v.CHAPPassword,
		}
		if connector["multipath"] == true {
			data["target_portals"], data["target_iqns"], data["target_luns"] = list{portal}, list{iqn}, list{1}
		}
		return data
	}}
}

// RBD is Ceph, with cephx.
func RBD() Connection {
	return Connection{kind: "rbd", data: func(v *volume, _ map[string]any) object {
		return object{"name": "volumes/volume-" + v.ID, "hosts": list{"127.0.0.1"}, "ports": list{"16789"}, "cluster_name": "ceph",
			"auth_enabled": true, "auth_username": "cinder", "secret_type": "ceph", "secret_uuid": "5a8b1f2c-0000-4000-8000-000000000001",
			"volume_id": v.ID, "discard": true}
	}}
}

// NFS is Cinder's nfs: a disk image on a share that holds those of all projects.
func NFS() Connection {
	return Raw("nfs", object{"export": "10.0.0.5:/vol", "name": "volume-1", "options": nil, "format": "raw"})
}

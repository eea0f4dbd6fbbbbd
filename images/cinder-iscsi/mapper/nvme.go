package mapper

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// nvme maps NVMe connections to static volumes of csi-driver-nvmf.
type nvme struct{}

// nvmeData has the fields of both versions of Cinder's connection info.
type nvmeData struct {
	Portal    text            `json:"target_portal"`
	Port      text            `json:"target_port"`
	Transport text            `json:"transport_type"`
	NQN       text            `json:"nqn"`
	TargetNQN text            `json:"target_nqn"`
	UUID      text            `json:"vol_uuid"`
	Portals   []list[text]    `json:"portals"`
	Replicas  json.RawMessage `json:"volume_replicas"`
}

// Map takes the first portal, since csi-driver-nvmf supports only one.
func (nvme) Map(c Connection, in Input) (Mapped, error) {
	var data nvmeData
	if err := decode(c.data, &data); err != nil {
		return Mapped{}, err
	}
	if len(data.Replicas) > 0 && string(data.Replicas) != "null" {
		return Mapped{}, errors.New("the volume is replicated on the host that mounts it, which needs os-brick; use a volume type without replicas")
	}
	nqn, address, port, transport, err := data.target()
	if err != nil {
		return Mapped{}, err
	}
	uuid, err := data.device(nqn, in.VolumeID)
	if err != nil {
		return Mapped{}, err
	}
	attributes := map[string]string{
		"targetTrAddr": address, "targetTrPort": port, "targetTrType": transport,
		"nqn": nqn, "deviceUUID": uuid,
	}
	if in.HostNQN != "" {
		attributes["hostNqn"], attributes["hostId"] = in.HostNQN, in.HostID
	}
	return Mapped{Source: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		Driver:           in.Parameters.NVMeCSIDriver,
		VolumeHandle:     in.Name,
		ReadOnly:         c.ReadOnly || in.ReadOnly,
		FSType:           in.fsType(),
		VolumeAttributes: attributes,
	}}}, nil
}

func (d nvmeData) target() (nqn, address, port, transport string, err error) {
	nqn, address, port, transport = string(d.NQN), string(d.Portal), string(d.Port), string(d.Transport)
	if d.TargetNQN != "" {
		nqn = string(d.TargetNQN)
	}
	if len(d.Portals) > 0 {
		first := d.Portals[0]
		if len(first) != 3 {
			return "", "", "", "", errors.New("portals[0] is not an address, a port and a transport")
		}
		address, port, transport = string(first[0]), string(first[1]), string(first[2])
	}
	if err := form.NQN("nqn", nqn); err != nil {
		return "", "", "", "", err
	}
	if address, err = form.Address("target_portal", address); err != nil {
		return "", "", "", "", err
	}
	if port, err = form.Port("target_port", port); err != nil {
		return "", "", "", "", err
	}
	switch strings.ToLower(transport) {
	case "tcp":
		return nqn, address, port, "tcp", nil
	case "rdma", "rocev2":
		return nqn, address, port, "rdma", nil
	}
	return "", "", "", "", fmt.Errorf("transport_type %s is neither tcp nor rdma", form.Quote(transport))
}

// device is the UUID of the namespace, by which the node finds the disk. The old form of the connection has none. Cinder's own target has
// a subsystem for each volume, whose namespace has the volume's ID.
func (d nvmeData) device(nqn, volumeID string) (string, error) {
	switch {
	case d.UUID != "":
		return form.UUID("vol_uuid", string(d.UUID))
	case volumeID != "" && strings.Contains(nqn, volumeID):
		return volumeID, nil
	}
	return "", errors.New("the connection does not tell the UUID of the namespace; set nvmeof_conn_info_version = 2 in the backend's section of cinder.conf")
}

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
	NGUID     text            `json:"volume_nguid"`
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
	attribute, device, err := data.device(nqn, in.VolumeID)
	if err != nil {
		return Mapped{}, err
	}
	attributes := map[string]string{
		"targetTrAddr": address, "targetTrPort": port, "targetTrType": transport,
		"nqn": nqn, attribute: device,
	}
	handle := in.VolumeID
	if attribute == deviceUUID {
		handle = device // by which the driver looks for the disk when it expands the volume
	}
	if in.HostNQN != "" {
		attributes["hostNqn"], attributes["hostId"] = in.HostNQN, in.HostID
	}
	return Mapped{Source: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
		Driver:           in.Parameters.NVMeCSIDriver,
		VolumeHandle:     handle,
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

// The attributes of csi-driver-nvmf by which the node finds the disk.
const (
	deviceUUID = "deviceUUID"
	deviceEUI  = "deviceEUI"
)

// device is the attribute by which the node finds the disk, and its value: the UUID of the namespace or, as many arrays
// have none, its NGUID. The old form of the connection has neither. Cinder's own target has a subsystem for each
// volume, whose namespace has the volume's ID.
//
// A vol_uuid without hyphens is the NGUID, as HPE's driver says. os-brick finds the disk by it, since the kernel shows the
// NGUID as the UUID of a namespace that has none, but udev calls the disk by its NGUID.
func (d nvmeData) device(nqn, volumeID string) (attribute, value string, err error) {
	nguid, err := form.NGUID("vol_uuid", string(d.UUID))
	isNGUID := err == nil && !strings.Contains(string(d.UUID), "-")
	switch {
	case isNGUID:
		return deviceEUI, nguid, nil
	case d.UUID != "":
		value, err = form.UUID("vol_uuid", string(d.UUID))
		return deviceUUID, value, err
	case d.NGUID != "":
		value, err = form.NGUID("volume_nguid", string(d.NGUID))
		return deviceEUI, value, err
	case volumeID != "" && strings.Contains(nqn, volumeID):
		return deviceUUID, volumeID, nil
	}
	return "", "", errors.New("the connection has neither vol_uuid nor volume_nguid, by which a node finds the disk; " +
		"set nvmeof_conn_info_version = 2 if the backend's driver has this option, or use a volume type with " +
		"another backend")
}

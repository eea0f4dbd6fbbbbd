package mapper

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/parameters"
)

// rbd maps images in a Ceph cluster. Cinder does not return the key, so the class has to name a Secret.
type rbd struct{}

type rbdData struct {
	Name  text       `json:"name"`
	Hosts list[text] `json:"hosts"`
	Ports list[text] `json:"ports"`
	User  text       `json:"auth_username"`
	Auth  flag       `json:"auth_enabled"`
}

// Map makes a static volume of ceph-csi, or a native one if the class says so. The kubelet supports native ones up to Kubernetes 1.30.
func (rbd) Map(c Connection, in Input) (Mapped, error) {
	var data rbdData
	if err := decode(c.data, &data); err != nil {
		return Mapped{}, err
	}
	pool, image, found := strings.Cut(string(data.Name), "/")
	if !found {
		return Mapped{}, fmt.Errorf("name %s is not pool/image", form.Quote(string(data.Name)))
	}
	if err := form.CephName("pool in name", pool); err != nil {
		return Mapped{}, err
	}
	if err := form.CephName("image in name", image); err != nil {
		return Mapped{}, err
	}
	var source corev1.PersistentVolumeSource
	var err error
	if in.Parameters.RBD == parameters.RBDNative {
		source.RBD, err = data.native(c, in, pool, image)
	} else {
		source.CSI, err = cephCSI(c, in, pool, image)
	}
	if err != nil {
		return Mapped{}, err
	}
	return Mapped{Source: source}, nil
}

func (d rbdData) native(c Connection, in Input, pool, image string) (*corev1.RBDPersistentVolumeSource, error) {
	p := in.Parameters
	monitors, err := d.monitors()
	if err != nil {
		return nil, err
	}
	source := &corev1.RBDPersistentVolumeSource{
		CephMonitors: monitors, RBDPool: pool, RBDImage: image, FSType: in.fsType(), ReadOnly: c.ReadOnly || in.ReadOnly,
		RadosUser: "admin", Keyring: "/etc/ceph/keyring", // the defaults of the API server
	}
	if d.User != "" {
		if err := form.CephName("auth_username", string(d.User)); err != nil {
			return nil, err
		}
		source.RadosUser = string(d.User)
	}
	if p.CephSecretName != "" {
		source.SecretRef = &corev1.SecretReference{Name: p.CephSecretName, Namespace: p.CephSecretNamespace}
	} else if d.Auth {
		return nil, errors.New("the cluster asks for a key, and Cinder does not tell it; name a Secret with it in parameters cephSecretName and cephSecretNamespace")
	}
	return source, nil
}

// monitors pairs hosts with ports.
func (d rbdData) monitors() ([]string, error) {
	if len(d.Hosts) == 0 || len(d.Hosts) != len(d.Ports) {
		return nil, fmt.Errorf("hosts and ports have %d and %d items; they must be as many, and at least one", len(d.Hosts), len(d.Ports))
	}
	if err := form.Count("hosts", len(d.Hosts)); err != nil {
		return nil, err
	}
	monitors := make([]string, len(d.Hosts))
	for i := range d.Hosts {
		monitor, err := form.Monitor(fmt.Sprintf("hosts[%d]", i), string(d.Hosts[i]), string(d.Ports[i]))
		if err != nil {
			return nil, err
		}
		monitors[i] = monitor
	}
	return monitors, nil
}

// cephCSI makes a volume of ceph-csi, which has its own list of monitors for each cluster ID.
func cephCSI(c Connection, in Input, pool, image string) (*corev1.CSIPersistentVolumeSource, error) {
	p := in.Parameters
	if p.CephClusterID == "" || p.CephSecretName == "" {
		return nil, errors.New("ceph-csi needs the parameters cephClusterID, cephSecretName and cephSecretNamespace: the cluster as ceph-csi knows it, and a Secret with userID and userKey")
	}
	attributes := map[string]string{
		"clusterID":     p.CephClusterID,
		"pool":          pool,
		"staticVolume":  "true",
		"imageFeatures": p.CephImageFeatures,
	}
	if p.CephMounter != "" {
		attributes["mounter"] = p.CephMounter
	}
	return &corev1.CSIPersistentVolumeSource{
		Driver:             p.CephCSIDriver,
		VolumeHandle:       image,
		ReadOnly:           c.ReadOnly || in.ReadOnly,
		FSType:             in.fsType(),
		VolumeAttributes:   attributes,
		NodeStageSecretRef: &corev1.SecretReference{Name: p.CephSecretName, Namespace: p.CephSecretNamespace},
	}, nil
}

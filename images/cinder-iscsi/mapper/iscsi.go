package mapper

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
)

// iscsi maps iSCSI connections. The kubelet logs in by itself.
type iscsi struct {
	// transport is the iSCSI interface, empty for the kubelet's default, TCP.
	transport string
}

type iscsiData struct {
	Portal  text         `json:"target_portal"`
	IQN     text         `json:"target_iqn"`
	LUN     number       `json:"target_lun"`
	Portals list[text]   `json:"target_portals"`
	IQNs    list[text]   `json:"target_iqns"`
	LUNs    list[number] `json:"target_luns"`
	WWN     text         `json:"wwn"`
	chapData
}

// path is one path to the volume.
type path struct {
	portal, iqn string
	lun         int64
}

// maxInterface is the API server's limit on "<volume>:<portal>", the name of the iSCSI interface that the kubelet creates for a volume
// with an initiator name.
const maxInterface = 64

// Map takes the first suitable path, and adds the portals of the paths with the same IQN and LUN, since a volume source has only one of each.
func (m iscsi) Map(c Connection, in Input) (Mapped, error) {
	data, err := decodeISCSI(c, in)
	if err != nil {
		return Mapped{}, err
	}
	paths, err := data.paths()
	if err != nil {
		return Mapped{}, err
	}
	main, err := mainPath(paths, in)
	if err != nil {
		return Mapped{}, err
	}
	lun, err := form.LUN("target_lun", main.lun)
	if err != nil {
		return Mapped{}, err
	}
	if in.PerVolume && !in.owns(main.iqn) {
		return Mapped{}, fmt.Errorf("target %s is shared by several volumes, so a node that is logged in to one would not see the next; set parameter initiatorMode to fixed or node", main.iqn)
	}
	if in.ManyNodes && in.Initiator != "" {
		return Mapped{}, fmt.Errorf("several nodes would log in as %s, and end each other's sessions; use a class "+
			"with initiatorMode node, or ask for ReadWriteOnce", in.Initiator)
	}
	var portals []string
	if in.Parameters.Multipath {
		portals = others(paths, main)
	}
	source := &corev1.ISCSIPersistentVolumeSource{
		TargetPortal:   main.portal,
		Portals:        portals,
		IQN:            main.iqn,
		Lun:            lun,
		ISCSIInterface: m.transport,
		FSType:         in.fsType(),
		ReadOnly:       c.ReadOnly || in.ReadOnly,
	}
	if in.Initiator != "" {
		if err := form.ISCSIName("initiator name", in.Initiator); err != nil {
			return Mapped{}, err
		}
		source.InitiatorName = &in.Initiator
	}
	secret, err := data.secret()
	if err != nil {
		return Mapped{}, err
	}
	if secret != nil {
		source.SessionCHAPAuth = secret[SessionUser] != ""
		source.DiscoveryCHAPAuth = secret[discoveryUser] != ""
		source.SecretRef = &corev1.SecretReference{Name: in.Name, Namespace: in.SecretNamespace}
	}
	return Mapped{Source: corev1.PersistentVolumeSource{ISCSI: source}, Secret: secret}, nil
}

// Reached is how a node reaches a volume that was attached to it.
type Reached struct {
	// Paths are PORTAL/IQN/LUN. Each has its own target and LUN, other than in a volume source.
	Paths []string
	// WWID is the disk's name in the node's kernel, empty if Cinder does not say it.
	WWID string
	// Secret has the credentials as in Mapped.
	Secret Secret
}

// wwid is the form of a WWID that is made of a disk's NAA identifier.
var wwid = regexp.MustCompile(`^3([0-9a-f]{16}|[0-9a-f]{32})$`)

// Reach maps the connection of a volume to one node.
func Reach(c Connection, in Input) (r Reached, err error) {
	switch {
	case c.Encrypted:
		return r, encrypted(in)
	case c.Type != "iscsi":
		return r, fmt.Errorf("cinder volume %s has a connection of type %s, and flex-node can attach iscsi alone; use "+
			"another initiatorMode, or a volume type with another backend", in.VolumeID, form.Quote(c.Type))
	case c.ReadOnly && !in.ReadOnly:
		return r, fmt.Errorf("cinder volume %s is read-only; allow writes in cinder", in.VolumeID)
	}
	var paths []path
	data, err := decodeISCSI(c, in)
	if err == nil {
		paths, err = data.paths()
	}
	if err == nil {
		r.Secret, err = data.secret()
	}
	for _, p := range paths {
		if _, wrong := form.LUN("target_lun", p.lun); err == nil {
			err = wrong
		}
		r.Paths = append(r.Paths, fmt.Sprintf("%s/%s/%d", p.portal, p.iqn, p.lun))
	}
	if err != nil {
		return Reached{}, fmt.Errorf("map iscsi connection of cinder volume %s: %w", in.VolumeID, err)
	}
	if wwid.MatchString(string(data.WWN)) {
		r.WWID = string(data.WWN)
	}
	return r, nil
}

func decodeISCSI(c Connection, in Input) (iscsiData, error) {
	var data iscsiData
	if err := decode(c.data, &data); err != nil {
		return iscsiData{}, err
	}
	if data.alone(in) {
		data.LUN = number{0, true}
	}

	return data, nil
}

// owns reports whether a target is this volume's alone: its name has the volume's ID or, as some backends name a target
// after the initiator, the name of the PersistentVolume.
func (in Input) owns(iqn string) bool {
	iqn = strings.ToLower(iqn)
	return strings.Contains(iqn, strings.ToLower(in.VolumeID)) || strings.Contains(iqn, strings.ToLower(in.Name))
}

// alone reports whether the volume is alone at its only path, and the driver tells no LUN, as Synology's does. There it
// is 0, as for os-brick. At a target of several volumes, 0 would be another volume.
func (d iscsiData) alone(in Input) bool {
	return !d.LUN.Set && len(d.LUNs) == 0 && len(d.Portals) == 0 && in.owns(string(d.IQN))
}

// paths lists the paths to the volume, first that of the singular fields. A singular field also completes the lists: some drivers have
// lists of portals or names alone, or one name for all portals. Pure's driver has only lists.
func (d iscsiData) paths() ([]path, error) {
	var paths []path
	add := func(portals, iqns list[text], luns list[number], i int) error {
		portal, portalField := pick(portals, i, d.Portal, "target_portal")
		iqn, iqnField := pick(iqns, i, d.IQN, "target_iqn")
		lun, lunField := pick(luns, i, d.LUN, "target_lun")
		normal, err := form.Portal(portalField, string(portal))
		if err != nil {
			return err
		}
		target, err := form.ISCSITarget(iqnField, string(iqn))
		if err != nil {
			return err
		}
		if !lun.Set {
			return fmt.Errorf("%s is missing", lunField)
		}
		paths = append(paths, path{normal, target, lun.Value})
		return nil
	}
	if d.Portal != "" && d.IQN != "" && d.LUN.Set {
		if err := add(nil, nil, nil, 0); err != nil {
			return nil, err
		}
	}
	portals := max(1, len(d.Portals))
	if err := form.Count("target_portals", portals); err != nil {
		return nil, err
	}
	if len(d.IQNs) > 0 && len(d.IQNs) != portals || len(d.LUNs) > 0 && len(d.LUNs) != portals {
		return nil, fmt.Errorf("target_portals, target_iqns and target_luns have %d, %d and %d items; they must be as many",
			len(d.Portals), len(d.IQNs), len(d.LUNs))
	}
	for i := range portals {
		if err := add(d.Portals, d.IQNs, d.LUNs, i); err != nil {
			return nil, err
		}
	}
	return distinct(paths)
}

// pick is an item of a list, or else the singular field, and its name.
func pick[T any](items list[T], i int, single T, field string) (T, string) {
	if len(items) == 0 {
		return single, field
	}
	return items[i], fmt.Sprintf("%ss[%d]", field, i)
}

// distinct removes duplicates. It is an error if a target has the volume at two LUNs, since one of them is another volume.
func distinct(paths []path) ([]path, error) {
	var out []path
	for _, p := range paths {
		i := slices.IndexFunc(out, func(q path) bool { return q.portal == p.portal && q.iqn == p.iqn })
		switch {
		case i < 0:
			out = append(out, p)
		case out[i].lun != p.lun:
			return nil, fmt.Errorf("target %s at %s has the LUNs %d and %d; it must have one", p.iqn, p.portal, out[i].lun, p.lun)
		}
	}
	return out, nil
}

// mainPath is the first path whose portal is short enough for an initiator name, if possible at the target of other nodes.
func mainPath(paths []path, in Input) (path, error) {
	if i := slices.IndexFunc(paths, func(p path) bool { return p.iqn == in.Target }); i > 0 {
		paths = slices.Concat(paths[i:], paths[:i])
	}
	if in.Initiator == "" {
		return paths[0], nil
	}
	for _, p := range paths {
		if len(in.Name+":"+p.portal) <= maxInterface {
			return p, nil
		}
	}
	return path{}, fmt.Errorf("%s:%s has more than %d characters, so that the volume can have no initiator name; set parameter initiatorMode to node, or give the backend a portal with a shorter address",
		in.Name, paths[0].portal, maxInterface)
}

// others lists the portals besides that of main, each once: the kubelet would wait in vain for the second login to a portal.
func others(paths []path, main path) []string {
	var portals []string
	for _, p := range paths {
		if p.iqn == main.iqn && p.lun == main.lun && p.portal != main.portal {
			portals = append(portals, p.portal)
		}
	}
	return portals
}

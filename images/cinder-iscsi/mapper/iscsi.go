package mapper

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// iscsi makes volumes that the kubelet logs in to by itself.
type iscsi struct {
	// transport is the iSCSI interface; empty is the kubelet's default, TCP.
	transport string
}

type iscsiData struct {
	Portal  text         `json:"target_portal"`
	IQN     text         `json:"target_iqn"`
	LUN     number       `json:"target_lun"`
	Portals list[text]   `json:"target_portals"`
	IQNs    list[text]   `json:"target_iqns"`
	LUNs    list[number] `json:"target_luns"`
	chapData
}

// path is one way to the volume.
type path struct {
	portal, iqn string
	lun         int64
}

// maxInterface is the API server's limit on "<volume>:<portal>", the name of the iSCSI interface that the kubelet makes
// where the volume has an initiator name of its own.
const maxInterface = 64

// iqnForm is the API server's, which other writings of a target do not pass.
var iqnForm = regexp.MustCompile(`^iqn\.\d{4}-\d{2}\.([[:alnum:]-.]+)(:[^,;*&$|\s]+)$`)

// Map picks the path that fits into a volume, and adds the portals that differ from it in nothing else: a volume has one
// IQN and one LUN.
func (m iscsi) Map(c Connection, in Input) (Mapped, error) {
	var data iscsiData
	if err := decode(c.data, &data); err != nil {
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
	lun, err := checkLUN(main.lun)
	if err != nil {
		return Mapped{}, err
	}
	if in.PerVolume && !strings.Contains(strings.ToLower(main.iqn), strings.ToLower(in.VolumeID)) {
		return Mapped{}, fmt.Errorf("target %s is shared by several volumes, so a node that is logged in to one would not see the next; set parameter initiatorMode to fixed or node", main.iqn)
	}
	source := &corev1.ISCSIPersistentVolumeSource{
		TargetPortal:   main.portal,
		Portals:        others(paths, main),
		IQN:            main.iqn,
		Lun:            lun,
		ISCSIInterface: m.transport,
		FSType:         in.fsType(),
		ReadOnly:       c.ReadOnly,
	}
	if in.Initiator != "" {
		source.InitiatorName = &in.Initiator
	}
	secret, err := data.secret()
	if err != nil {
		return Mapped{}, err
	}
	if secret != nil {
		source.SessionCHAPAuth = secret[sessionUser] != ""
		source.DiscoveryCHAPAuth = secret[discoveryUser] != ""
		source.SecretRef = &corev1.SecretReference{Name: in.Name, Namespace: in.SecretNamespace}
	}
	return Mapped{Source: corev1.PersistentVolumeSource{ISCSI: source}, Secret: secret}, nil
}

// paths lists the ways to the volume, that of the singular fields first; Pure's driver has only the plural ones.
func (d iscsiData) paths() ([]path, error) {
	var paths []path
	add := func(portal, iqn text, lun number) error {
		normal, err := checkPortal(string(portal))
		switch {
		case err != nil:
			return err
		case !iqnForm.MatchString(string(iqn)):
			return fmt.Errorf("target_iqn %q is not of the form iqn.YYYY-MM.domain:name, the only one that Kubernetes takes", iqn)
		case !lun.Set:
			return errors.New("target_lun is missing")
		}
		if p := (path{normal, string(iqn), lun.Value}); !slices.Contains(paths, p) {
			paths = append(paths, p)
		}
		return nil
	}
	if d.Portal != "" || len(d.Portals) == 0 {
		if err := add(d.Portal, d.IQN, d.LUN); err != nil {
			return nil, err
		}
	}
	if len(d.IQNs) != len(d.Portals) || len(d.LUNs) != len(d.Portals) {
		return nil, fmt.Errorf("target_portals, target_iqns and target_luns have %d, %d and %d items; they must be as many",
			len(d.Portals), len(d.IQNs), len(d.LUNs))
	}
	for i := range d.Portals {
		if err := add(d.Portals[i], d.IQNs[i], d.LUNs[i]); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// mainPath is the first whose portal is short enough for an initiator name.
func mainPath(paths []path, in Input) (path, error) {
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

// others are the portals beside that of main. The kubelet waits in vain for a portal that is named twice.
func others(paths []path, main path) []string {
	var portals []string
	for _, p := range paths {
		if p.iqn == main.iqn && p.lun == main.lun && p.portal != main.portal {
			portals = append(portals, p.portal)
		}
	}
	return portals
}

// checkPortal brackets IPv6 addresses and adds the port where it is left out. A portal may end with its group, ",1".
func checkPortal(portal string) (string, error) {
	address, _, _ := strings.Cut(portal, ",")
	if ip, err := netip.ParseAddr(strings.Trim(address, "[]")); err == nil && ip.Zone() == "" {
		return net.JoinHostPort(ip.String(), "3260"), nil
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, "3260"
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || host == "" || strings.ContainsAny(host, " /@[]\t\r\n%") {
		return "", fmt.Errorf("target_portal %q is not an address with a port", portal)
	}
	return net.JoinHostPort(host, port), nil
}

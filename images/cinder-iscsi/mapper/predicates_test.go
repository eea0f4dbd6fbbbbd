package mapper_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
)

// What is true of each field of a volume, said here without the code's own checks.

const (
	digits    = "0123456789"
	hex       = digits + "abcdef"
	letters   = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	nameChars = letters + digits + ".-"
)

// only says that text has some of these characters and no others, and cannot be taken for an option or climb in a path.
func only(text, characters string, longest int) bool {
	return text != "" && len(text) <= longest && text[0] != '-' && !strings.Contains(text, "..") && strings.Trim(text, characters) == "" &&
		!strings.ContainsFunc(text, func(r rune) bool { return !strings.ContainsRune(characters, r) })
}

func isPort(text string) bool {
	port, err := strconv.Atoi(text)
	return err == nil && port > 0 && port < 65536 && strconv.Itoa(port) == text
}

func isIP(text string) bool {
	ip, err := netip.ParseAddr(text)
	return err == nil && ip.Zone() == "" && only(text, hex+".:", 45)
}

// isHostPort is an address in brackets where it has colons, or a name.
func isHostPort(text string) bool {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || !isPort(text[i+1:]) {
		return false
	}
	host := text[:i]
	if inner, found := strings.CutPrefix(host, "["); found {
		inner, found = strings.CutSuffix(inner, "]")
		return found && strings.Contains(inner, ":") && isIP(inner)
	}
	return only(host, nameChars, 253)
}

func isISCSIName(text string) bool {
	kind, rest, found := strings.Cut(text, ".")
	switch {
	case !found || len(text) > 223 || strings.Contains(text, ".."):
		return false
	case kind == "eui":
		return len(rest) == 16 && only(strings.ToLower(rest), hex, 16)
	case kind == "naa":
		return len(rest) == 32 && only(strings.ToLower(rest), hex, 32)
	}
	date, domain, dotted := strings.Cut(rest, ".")
	domain, name, named := strings.Cut(domain, ":")
	return kind == "iqn" && dotted && named && len(date) == 7 && date[4] == '-' && only(date, digits+"-", 7) && only(domain, nameChars, 223) && only(name, nameChars+":_", 223)
}

func isUUID(text string) bool {
	return len(text) == 36 && only(text, hex+"-", 36) && strings.Count(text, "-") == 4
}

// isCredential is one line for iscsid's file.
func isCredential(text string) bool {
	return text != "" && len(text) <= 255 && strings.TrimSpace(text) == text && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' })
}

func is(t *testing.T, field, value string, holds bool) {
	t.Helper()
	if !holds {
		t.Errorf("%s is %.1000q", field, value)
	}
}

// check is what a node and the API server need, as far as it depends on the connection.
func check(t *testing.T, m mapper.Mapped, in mapper.Input) {
	t.Helper()
	if size := len(mustJSON(t, m.Source)); size > 64<<10 {
		t.Errorf("the source has %d bytes", size)
	}
	if m.Source.ISCSI == nil && m.Secret != nil {
		t.Errorf("there is a secret, %v", m.Secret)
	}
	switch s := m.Source; {
	case s.ISCSI != nil:
		checkISCSI(t, s.ISCSI, m, in)
	case s.FC != nil:
		checkFC(t, s.FC)
	case s.RBD != nil:
		checkRBD(t, s.RBD)
	case s.CSI != nil && s.CSI.Driver == in.Parameters.CephCSIDriver:
		is(t, "volumeHandle", s.CSI.VolumeHandle, only(s.CSI.VolumeHandle, nameChars+"_", 128))
		is(t, "pool", s.CSI.VolumeAttributes["pool"], only(s.CSI.VolumeAttributes["pool"], nameChars+"_", 128))
		checkKeys(t, s.CSI.VolumeAttributes, "clusterID", "imageFeatures", "pool", "staticVolume")
	case s.CSI != nil && s.CSI.Driver == in.Parameters.NVMeCSIDriver:
		checkNVMe(t, s.CSI, in)
	default:
		t.Error("no source")
	}
}

func checkKeys(t *testing.T, values map[string]string, want ...string) {
	t.Helper()
	for _, key := range want {
		if _, found := values[key]; !found || len(values) != len(want) {
			t.Errorf("keys of %v, want %v", values, want)
		}
	}
}

func checkISCSI(t *testing.T, s *corev1.ISCSIPersistentVolumeSource, m mapper.Mapped, in mapper.Input) {
	t.Helper()
	is(t, "targetPortal", s.TargetPortal, isHostPort(s.TargetPortal))
	for i, portal := range s.Portals {
		is(t, "portal", portal, isHostPort(portal) && portal != s.TargetPortal && !slices.Contains(s.Portals[:i], portal) && len(s.Portals) <= 64)
	}
	is(t, "iqn", s.IQN, isISCSIName(s.IQN))
	is(t, "lun", strconv.Itoa(int(s.Lun)), s.Lun >= 0 && s.Lun <= 255)
	is(t, "iscsiInterface", s.ISCSIInterface, s.ISCSIInterface == "" || s.ISCSIInterface == "iser")
	is(t, "fsType", s.FSType, s.FSType == "" || s.FSType == "ext4")
	if s.InitiatorName != nil {
		is(t, "initiatorName", *s.InitiatorName, isISCSIName(*s.InitiatorName) && *s.InitiatorName == in.Initiator && len(in.Name+":"+s.TargetPortal) <= 64)
	}
	if (s.SessionCHAPAuth || s.DiscoveryCHAPAuth) != (s.SecretRef != nil) || (s.SecretRef != nil) != (len(m.Secret) > 0) {
		t.Errorf("%+v with %d keys in the secret", s, len(m.Secret))
	}
	for key, value := range m.Secret {
		is(t, key, value, isCredential(value))
	}
	var want []string
	if s.SessionCHAPAuth {
		want = append(want, "node.session.auth.username", "node.session.auth.password")
	}
	if s.DiscoveryCHAPAuth {
		want = append(want, "discovery.sendtargets.auth.username", "discovery.sendtargets.auth.password")
	}
	checkKeys(t, m.Secret, want...)
}

func checkFC(t *testing.T, s *corev1.FCVolumeSource) {
	t.Helper()
	if len(s.TargetWWNs) == 0 || len(s.TargetWWNs) > 64 || len(s.WWIDs) > 0 || s.Lun == nil || *s.Lun < 0 || *s.Lun > 255 {
		t.Errorf("%+v", s)
	}
	for i, wwn := range s.TargetWWNs {
		is(t, "targetWWN", wwn, len(wwn) == 16 && only(wwn, hex, 16) && !slices.Contains(s.TargetWWNs[:i], wwn))
	}
}

// checkLUNs: where each target has a LUN in a list, no target is mapped that has another than the volume. What is written
// twice is left out.
func checkLUNs(t *testing.T, data []byte, s *corev1.FCVolumeSource) {
	t.Helper()
	var said struct {
		WWN  any   `json:"target_wwn"`
		WWNs []any `json:"target_wwns"`
		LUNs []any `json:"target_luns"`
	}
	numbers := json.NewDecoder(bytes.NewReader(data))
	numbers.UseNumber()
	lower := strings.ToLower(string(data))
	if strings.Count(lower, "target_luns") != 1 || strings.Count(lower, "target_wwn\"") > 1 || strings.Count(lower, "target_wwns") > 1 ||
		strings.Contains(lower, "lun_map") || numbers.Decode(&said) != nil || len(said.LUNs) == 0 {
		return
	}
	names := said.WWNs
	if list, is := said.WWN.([]any); is && len(names) == 0 {
		names = list
	}
	for _, wwn := range s.TargetWWNs {
		found := false
		for i, name := range names {
			text := strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(fmt.Sprint(name)), "0x"), ":", "")
			if text == wwn && i < len(said.LUNs) {
				lun, err := strconv.Atoi(fmt.Sprint(said.LUNs[i]))
				found = found || err == nil && lun == int(*s.Lun)
			}
		}
		is(t, "targetWWN at LUN "+strconv.Itoa(int(*s.Lun)), wwn, found || len(names) == 0)
	}
}

func checkRBD(t *testing.T, s *corev1.RBDPersistentVolumeSource) {
	t.Helper()
	is(t, "pool", s.RBDPool, only(s.RBDPool, nameChars+"_", 128))
	is(t, "image", s.RBDImage, only(s.RBDImage, nameChars+"_", 128))
	is(t, "user", s.RadosUser, only(s.RadosUser, nameChars+"_", 128))
	is(t, "keyring", s.Keyring, s.Keyring == "/etc/ceph/keyring")
	if len(s.CephMonitors) == 0 || len(s.CephMonitors) > 64 || s.SecretRef == nil {
		t.Errorf("%+v", s)
	}
	for _, monitor := range s.CephMonitors {
		is(t, "monitor", monitor, isHostPort(monitor))
	}
}

func checkNVMe(t *testing.T, s *corev1.CSIPersistentVolumeSource, in mapper.Input) {
	t.Helper()
	a := s.VolumeAttributes
	device := "deviceUUID"
	if _, found := a["deviceEUI"]; found {
		device = "deviceEUI"
	}
	checkKeys(t, a, "targetTrAddr", "targetTrPort", "targetTrType", "nqn", device, "hostNqn", "hostId")
	// The driver looks for the disk to expand by the handle.
	is(t, "volumeHandle", s.VolumeHandle, s.VolumeHandle == a["deviceUUID"] || device == "deviceEUI" && s.VolumeHandle == in.VolumeID)
	is(t, "targetTrAddr", a["targetTrAddr"], isIP(a["targetTrAddr"]))
	is(t, "targetTrPort", a["targetTrPort"], isPort(a["targetTrPort"]))
	is(t, "targetTrType", a["targetTrType"], a["targetTrType"] == "tcp" || a["targetTrType"] == "rdma")
	is(t, "nqn", a["nqn"], strings.HasPrefix(a["nqn"], "nqn.") && only(a["nqn"], nameChars+":_", 223))
	is(t, device, a[device], isUUID(a[device]) || device == "deviceEUI" && len(a[device]) == 32 && only(a[device], hex, 32))
}

// checkError: events and logs show it. The longest has two names of 223 characters.
func checkError(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if len(text) > 1000 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("an error of %d bytes, %.1000q", len(text), text)
	}
}

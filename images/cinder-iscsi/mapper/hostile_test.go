package mapper_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/mapper"
)

type fields = map[string]any

const (
	iqn   = "iqn.2010-10.org.openstack:volume-" + volumeID
	other = "iqn.2010-10.org.other:volume-" + volumeID
)

// bases are connections that can be mapped, and params the class's parameters for them.
var bases = map[string]fields{
	"iscsi": {"target_portal": "10.0.0.1:3260", "target_iqn": iqn, "target_lun": 1,
		"auth_method": "CHAP", "auth_username": "user", "auth_password": "ScrubbedSecret16"},
	"fibre_channel": {"target_wwn": []string{"500a098280feeba5"}, "target_lun": 1},
	"rbd":           {"name": "volumes/volume-1", "hosts": []string{"10.0.0.1"}, "ports": []string{"6789"}, "auth_username": "cinder"},
	"nvmeof":        {"target_portal": "10.0.0.1", "target_port": 4420, "transport_type": "tcp", "target_nqn": "nqn.volume-1", "vol_uuid": volumeID},
}

var params = map[string]map[string]string{
	"iscsi": {"multipath": "true"},
	"rbd":   {"rbd": "native", "cephSecretName": "s", "cephSecretNamespace": "n"},
}

// mapWith maps the connection of a kind with some fields changed, and gives the error's end.
func mapWith(t *testing.T, kind string, change fields) (mapper.Mapped, string) {
	t.Helper()
	data := maps.Clone(bases[kind])
	maps.Copy(data, change)
	maps.DeleteFunc(data, func(_ string, value any) bool { return value == nil })
	text, err := json.Marshal(fields{"driver_volume_type": kind, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	connection, err := mapper.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := mapper.Map(connection, input(t, params[kind], false))
	if _, wrong := mapper.Reach(connection, input(t, params[kind], false)); kind == "iscsi" && fmt.Sprint(wrong) != fmt.Sprint(err) {
		t.Errorf("for a volume: %v\nfor a node: %v", err, wrong)
	}
	if err == nil {
		return mapped, ""
	}
	return mapped, strings.TrimPrefix(err.Error(), "map "+kind+" connection of cinder volume "+volumeID+": ")
}

func times[T any](n int, item T) []T { return slices.Repeat([]T{item}, n) }

// wwns are n names of targets.
func wwns(from, n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("%016x", from+i))
	}
	return names
}

// pairs are targets with the volume at LUN 1.
func pairs(wwns []string) (targets [][]any) {
	for _, wwn := range wwns {
		targets = append(targets, []any{wwn, 1})
	}
	return targets
}

// Forms, as errors say them.
const (
	portalForm = "is not an IP address without a zone, with a port or without: the kubelet finds a disk by the address"
	nameForm   = "is not of the form iqn.YYYY-MM.domain:name, eui. with 16 hexadecimal digits or naa. with 32; the name may have letters, digits, '.', ':', '_' and '-', but not '..'"
	chapForm   = "is not 1 to 255 printable ASCII characters without a space at either end"
	wwnForm    = "is not a World Wide Name of 16 hexadecimal digits"
	nqnForm    = "is not of the form nqn.NAME; the name may have letters, digits, '.', ':', '_' and '-', but not '..'"
	ipForm     = "is not an IP address without a zone"
	cephForm   = "is not of 1 to 128 letters, digits, '.', '_' and '-', of which the first is a letter or a digit, and none are '..'"
)

// What a backend says to mislead a node is refused, with the field and its form.
func TestHostile(t *testing.T) {
	for _, c := range []struct {
		kind   string
		change fields
		want   string
	}{
		{"iscsi", fields{"target_portal": "--interface=default"}, `target_portal "--interface=default" ` + portalForm},
		{"iscsi", fields{"target_portal": "10.0.0.1:3260 -o delete"}, `target_portal "10.0.0.1:3260 -o delete" ` + portalForm},
		{"iscsi", fields{"target_portal": "../../etc"}, `target_portal "../../etc" ` + portalForm},
		{"iscsi", fields{"target_portal": "[fe80::1%eth0]:3260"}, `target_portal "[fe80::1%eth0]:3260" ` + portalForm},
		{"iscsi", fields{"target_portal": "fd00::1:3260"}, `target_portal "fd00::1:3260" may be an IPv6 address with a port or without; have the backend write [fd00::1]:3260 or [fd00::1:3260]`},
		{"iscsi", fields{"target_portal": "storage\x00:3260"}, `target_portal "storage\x00:3260" ` + portalForm},
		{"iscsi", fields{"target_portal": "storage*:3260"}, `target_portal "storage*:3260" ` + portalForm},
		{"iscsi", fields{"target_portal": "0.0.0.0:3260"}, `target_portal "0.0.0.0:3260" ` + portalForm},
		{"iscsi", fields{"target_portal": "10.0.0.1:3260,1;reboot"}, `target_portal "10.0.0.1:3260,1;reboot" ` + portalForm},
		{"iscsi", fields{"target_portal": strings.Repeat("a.", 200) + "a"}, `target_portal "` + strings.Repeat("a.", 50) + `"... ` + portalForm},
		{"iscsi", fields{"target_iqn": iqn + "/../../x"}, `target_iqn "` + iqn + `/../../x" ` + nameForm},
		{"iscsi", fields{"target_iqn": "iqn.2010-10.org:a/../b"}, `target_iqn "iqn.2010-10.org:a/../b" ` + nameForm},
		{"iscsi", fields{"target_iqn": "iqn.2010-10.org:*"}, `target_iqn "iqn.2010-10.org:*" ` + nameForm},
		{"iscsi", fields{"target_iqn": "iqn.2010-10.org:\x1b[2J"}, `target_iqn "iqn.2010-10.org:\x1b[2J" ` + nameForm},
		{"iscsi", fields{"target_iqn": "iqn.2010-10.org:" + strings.Repeat("a", 300)}, `target_iqn "iqn.2010-10.org:` + strings.Repeat("a", 84) + `"... ` + nameForm},
		{"iscsi", fields{"target_portals": []string{"-h"}}, `target_portals[0] "-h" ` + portalForm},
		{"iscsi", fields{"target_portals": []string{"10.0.0.2"}, "target_iqns": []string{"x"}}, `target_iqns[0] "x" ` + nameForm},
		{"iscsi", fields{"target_portals": times(65, "10.0.0.2")}, "target_portals has 65 items; it may have 64"},
		{"iscsi", fields{"auth_password": "ScrubbedSecret16\nnode.startup = automatic"}, "auth_password " + chapForm},
		{"iscsi", fields{"auth_username": "user\nnode.session.auth.authmethod = None"}, "auth_username " + chapForm},
		{"iscsi", fields{"auth_password": strings.Repeat("Scrubbed", 40)}, "auth_password " + chapForm},
		{"iscsi", fields{"discovery_auth_method": "CHAP", "discovery_auth_username": "u", "discovery_auth_password": "Scrubbed\x00"}, "discovery_auth_password " + chapForm},
		{"iscsi", fields{"discovery_auth_method": "CHAP", "discovery_auth_username": " u", "discovery_auth_password": "Scrubbed"}, "discovery_auth_username " + chapForm},
		{"iscsi", fields{"auth_method": strings.Repeat("x\n", 1000)}, `auth_method is "` + strings.Repeat(`x\n`, 50) + `"...; only CHAP is known`},

		{"fibre_channel", fields{"target_wwn": ".*"}, `target_wwn[0] ".*" ` + wwnForm},
		{"fibre_channel", fields{"target_wwn": "5:00a098280feeba5"}, `target_wwn[0] "5:00a098280feeba5" ` + wwnForm},
		{"fibre_channel", fields{"target_wwns": []string{"500a098280feeba5", "500a098280feeba5|."}}, `target_wwns[1] "500a098280feeba5|." ` + wwnForm},
		{"fibre_channel", fields{"target_wwn": times(65, "500a098280feeba5")}, "target_wwn has 65 items; it may have 64"},
		{"fibre_channel", fields{"initiator_target_lun_map": fields{"a": [][]any{{".*", 1}}}}, `initiator_target_lun_map ".*" ` + wwnForm},
		{"fibre_channel", fields{"target_wwns": wwns(0, 40), "target_luns": times(40, 1), "initiator_target_lun_map": fields{"a": pairs(wwns(40, 25))}},
			"initiator_target_lun_map beside target_wwns has 65 items; it may have 64"},
		{"fibre_channel", fields{"initiator_target_lun_map": fields{"a": pairs(wwns(0, 65))}}, "connection info has a field that is no map to at most 64 targets"},
		{"fibre_channel", fields{"initiator_target_lun_map": []string{"500a098280feeba5"}}, "connection info has a field that is no map of initiators to targets with LUNs"},
		{"fibre_channel", fields{"initiator_target_lun_map": fields{"a": []string{"500a098280feeba5"}}}, "connection info has a field that is no map of initiators to targets with LUNs"},

		{"rbd", fields{"name": "--id/image"}, `pool in name "--id" ` + cephForm},
		{"rbd", fields{"name": "../image"}, `pool in name ".." ` + cephForm},
		{"rbd", fields{"name": "/image"}, `pool in name "" ` + cephForm},
		{"rbd", fields{"name": "pool/image@snapshot"}, `image in name "image@snapshot" ` + cephForm},
		{"rbd", fields{"name": "pool/namespace/image"}, `image in name "namespace/image" ` + cephForm},
		{"rbd", fields{"name": "_pool/image"}, `pool in name "_pool" ` + cephForm},
		{"rbd", fields{"name": "pool/-image"}, `image in name "-image" ` + cephForm},
		{"rbd", fields{"name": "pool/a\nb"}, `image in name "a\nb" ` + cephForm},
		{"rbd", fields{"name": strings.Repeat("x", 1000)}, `name "` + strings.Repeat("x", 100) + `"... is not pool/image`},
		{"rbd", fields{"auth_username": "admin --keyring /etc/shadow"}, `auth_username "admin --keyring /etc/shadow" ` + cephForm},
		{"rbd", fields{"hosts": []string{"10.0.0.1,10.0.0.9"}}, `hosts[0] "10.0.0.1,10.0.0.9:6789" is not an IP address without a zone or a DNS name, and a port`},
		{"rbd", fields{"hosts": []string{"fe80::1%eth0"}}, `hosts[0] "fe80::1%eth0:6789" is not an IP address without a zone or a DNS name, and a port`},
		{"rbd", fields{"ports": []string{"6789 --id admin"}}, `hosts[0] "10.0.0.1:6789 --id admin" is not an IP address without a zone or a DNS name, and a port`},
		{"rbd", fields{"hosts": times(65, "10.0.0.1"), "ports": times(65, "6789")}, "hosts has 65 items; it may have 64"},

		{"nvmeof", fields{"target_portal": "fe80::1%eth0,host_traddr=10.0.0.9"}, `target_portal "fe80::1%eth0,host_traddr=10.0.0.9" ` + ipForm},
		{"nvmeof", fields{"target_portal": "fe80::1%eth0"}, `target_portal "fe80::1%eth0" ` + ipForm},
		{"nvmeof", fields{"target_portal": "10.0.0.1,trsvcid=1"}, `target_portal "10.0.0.1,trsvcid=1" ` + ipForm},
		{"nvmeof", fields{"target_portal": "[[10.0.0.1]]"}, `target_portal "[[10.0.0.1]]" ` + ipForm},
		{"nvmeof", fields{"portals": [][]any{{"10.0.0.1", "4420,nqn=x", "tcp"}}}, `target_port "4420,nqn=x" is not a port between 1 and 65535`},
		{"nvmeof", fields{"target_port": 65536}, `target_port "65536" is not a port between 1 and 65535`},
		{"nvmeof", fields{"target_nqn": "nqn.volume-1,traddr=10.0.0.9"}, `nqn "nqn.volume-1,traddr=10.0.0.9" ` + nqnForm},
		{"nvmeof", fields{"target_nqn": "nqn.a/../b"}, `nqn "nqn.a/../b" ` + nqnForm},
		{"nvmeof", fields{"vol_uuid": "../../sda"}, `vol_uuid "../../sda" is not a UUID`},
		{"nvmeof", fields{"vol_uuid": "*"}, `vol_uuid "*" is not a UUID`},
		{"nvmeof", fields{"vol_uuid": nil, "volume_nguid": "../../sda"}, `volume_nguid "../../sda" is not an NGUID of 32 hexadecimal digits, with hyphens or without`},
		{"nvmeof", fields{"transport_type": "tcp,nqn=x"}, `transport_type "tcp,nqn=x" is neither tcp nor rdma`},
	} {
		if mapped, got := mapWith(t, c.kind, c.change); got != c.want {
			t.Errorf("%s with %.200v:\ngot  %s %.300v\nwant %s", c.kind, c.change, got, mapped.Source, c.want)
		}
	}
}

// A type, and the whole, may be as long as they like: errors are not.
func TestHostileSize(t *testing.T) {
	connection, err := mapper.Decode(fmt.Appendf(nil, `{"driver_volume_type": %q}`, strings.Repeat("x\n", 10000)))
	if err != nil {
		t.Fatal(err)
	}
	want := "cinder volume " + volumeID + ` has a connection of type "` + strings.Repeat(`x\n`, 50) +
		`"..., which no native volume can use; use a volume type with one of fibre_channel, iscsi, iser, nvmeof, rbd`
	if _, err := mapper.Map(connection, input(t, nil, false)); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	want = "connection info has 1048599 bytes; it may have 1048576"
	if _, err := mapper.Decode(fmt.Appendf(nil, `{"driver_volume_type":"%s"}`, strings.Repeat("x", 1<<20-2))); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// The initiator name is ours, and is checked like the backend's names.
func TestHostileInitiator(t *testing.T) {
	data, _ := json.Marshal(fields{"driver_volume_type": "iscsi", "data": bases["iscsi"]})
	connection, err := mapper.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	in := input(t, nil, false)
	in.Initiator = "iqn.2026-01.io:a/../b"
	want := "map iscsi connection of cinder volume " + volumeID + `: initiator name "iqn.2026-01.io:a/../b" ` + nameForm
	if _, err := mapper.Map(connection, in); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// An access mode that is neither is not taken for one that may write.
func TestAccessMode(t *testing.T) {
	for mode, want := range map[string]string{
		`"rw"`: "may write", `"RO"`: "reads", `"ro"`: "reads", `""`: "may write", "null": "may write",
		`"ro "`: `access_mode "ro " is neither rw nor ro`, `"read-only"`: `access_mode "read-only" is neither rw nor ro`,
		"1": `access_mode "1" is neither rw nor ro`, `"ro\n"`: `access_mode "ro\n" is neither rw nor ro`, "true": "connection info has a field that is no text",
	} {
		got := "may write"
		connection, err := mapper.Decode(fmt.Appendf(nil, `{"driver_volume_type": "rbd", "data": {"access_mode": %s}}`, mode))
		if err != nil {
			got = err.Error()
		} else if connection.ReadOnly {
			got = "reads"
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", mode, got, want)
		}
	}
}

package parameters

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestDefaults(t *testing.T) {
	got, err := Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Parameters{FSType: "ext4", InitiatorMode: PerVolume, ConnectorIP: "127.0.0.1", RBD: RBDCephCSI,
		CephCSIDriver: "rbd.csi.ceph.com", CephImageFeatures: "layering", NVMeCSIDriver: "csi.nvmf.com"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	properties, err := ParseProperties(nil)
	if err != nil || !reflect.DeepEqual(properties, Properties{CloudConfig: "cinder-cloud-config", Cluster: "kubernetes"}) {
		t.Errorf("got %+v, %v", properties, err)
	}
}

func TestParseErrors(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, c := range []struct{ key, value, err string }{
		{"type", "", `parameters[type]: Invalid value: "": must be one line of 1 to 255 characters; leave it out for the default`},
		{"availability", long, `parameters[availability]: Invalid value: "` + long + `": must be one line of 1 to 255 characters; leave it out for the default`},
		{"fsType", "zfs", `parameters[fsType]: Unsupported value: "zfs": supported values: "ext4", "ext3", "xfs", "btrfs"`},
		{"csi.storage.k8s.io/fstype", "zfs", `parameters[csi.storage.k8s.io/fstype]: Unsupported value: "zfs": supported values: "ext4", "ext3", "xfs", "btrfs"`},
		{"initiatorMode", "all", `parameters[initiatorMode]: Unsupported value: "all": supported values: "per-volume", "fixed", "node", "attach"`},
		{"initiatorMode", "fixed", `parameters[initiator]: Required value: initiatorMode fixed needs the name`},
		{"initiator", "iqn.2026-01.com.example:x", `parameters[initiator]: Forbidden: it means something only with initiatorMode fixed`},
		{"initiator", "iqn.2026-01.com.example:a..b", `parameters[initiator]: Invalid value: "iqn.2026-01.com.example:a..b": must be an IQN such as iqn.2026-01.example.com:cluster-1`},
		{"connectorIP", "localhost", `parameters[connectorIP]: Invalid value: "localhost": must be an IP address`},
		{"multipath", "True", `parameters[multipath]: Unsupported value: "True": supported values: "true", "false"`},
		{"metadata", "a", `parameters[metadata]: Invalid value: "a": must be key=value, each of at most 255 characters`},
		{"metadata", "a=1,a=2", `parameters[metadata]: Duplicate value: "a"`},
		{"metadata", "flex-provisioner.io/claim-uid=x", `parameters[metadata]: Invalid value: "flex-provisioner.io/claim-uid=x": the provisioner or Cinder sets this key itself; name another`},
		{"rbd", "krbd", `parameters[rbd]: Unsupported value: "krbd": supported values: "ceph-csi", "native"`},
		{"cephSecretName", "a", `parameters[cephSecretNamespace]: Required value: cephSecretName and cephSecretNamespace are given both or not at all`},
		{"sameHost", "x", `parameters[sameHost]: Invalid value: "x": must be the ID of a Cinder volume`},
		{"differentHost", " , ", `parameters[differentHost]: Invalid value: " , ": must name at least one Cinder volume`},
		{"schedulerQuery", "{}", `parameters[schedulerQuery]: Invalid value: "{}": must be a JSON list such as [">=", "$free_capacity_gb", 100]`},
		{"Type", "x", `parameters[Type]: Forbidden: is not known; known are ` + strings.Join(names(), ", ")},
	} {
		_, err := Parse(map[string]string{c.key: c.value})
		if err == nil || err.Error() != c.err {
			t.Errorf("%s=%s:\ngot  %v\nwant %s", c.key, c.value, err, c.err)
		}
		if _, err := Parse(Known(map[string]string{"of another version": "x"})); err != nil {
			t.Errorf("Known left something: %v", err)
		}
	}
}

// What flex-node cannot do, or does in any case, is not asked of it.
func TestAttachErrors(t *testing.T) {
	for key, want := range map[string]string{
		"initiator": `parameters[initiator]: Forbidden: it means something only with initiatorMode fixed`,
		"fsType":    `parameters[fsType]: Unsupported value: "btrfs": supported values: "ext4", "xfs"`,
		"multipath": `parameters[multipath]: Forbidden: it means nothing with initiatorMode attach: flex-node attaches iSCSI, by all paths`,
		"rbd":       `parameters[rbd]: Forbidden: it means nothing with initiatorMode attach: flex-node attaches iSCSI, by all paths`,
	} {
		values := map[string]string{"initiator": "iqn.2026-01.com.example:x", "fsType": "btrfs", "multipath": "false", "rbd": "ceph-csi"}
		_, err := Parse(map[string]string{"initiatorMode": "attach", key: values[key]})
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v", key, err)
		}
	}
	if p, err := Parse(map[string]string{"initiatorMode": "attach", "fsType": "xfs", "smartclone": "true"}); err != nil || p.InitiatorMode != Attach {
		t.Errorf("got %+v, %v", p, err)
	}
}

// The file system has a name that all provisioners know, beside our own. Other names with a prefix speak to others.
func TestStandardNames(t *testing.T) {
	for _, c := range []struct {
		values    map[string]string
		want, err string
	}{
		{values: map[string]string{"csi.storage.k8s.io/fstype": "xfs", "csi.storage.k8s.io/provisioner-secret-name": "x"}, want: "xfs"},
		{values: map[string]string{"csi.storage.k8s.io/fstype": "xfs", "fsType": "xfs"}, want: "xfs"},
		{values: map[string]string{"csi.storage.k8s.io/fstype": "", "fsType": "xfs"}, want: "xfs"},
		{values: map[string]string{"csi.storage.k8s.io/fstype": ""}, want: "ext4"},
		{values: map[string]string{"csi.storage.k8s.io/fstype": "xfs", "fsType": "ext3"},
			err: `parameters[fsType]: Invalid value: "ext3": differs from csi.storage.k8s.io/fstype, which is "xfs"; keep one`},
	} {
		for _, values := range []map[string]string{c.values, Known(c.values)} {
			got, err := Parse(values)
			if got.FSType != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
				t.Errorf("%v: file system %q, %v", values, got.FSType, err)
			}
		}
	}
}

func TestPropertyErrors(t *testing.T) {
	for _, c := range []struct{ key, value, err string }{
		{"cloud-config", "A", `properties[cloud-config]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`},
		{"cluster", "-", `properties[cluster]: Invalid value: "-": must be 1 to 63 letters, digits, '.', '_' and '-', and begin with a letter or digit`},
		{"initiators", "node-1", `properties[initiators]: Invalid value: "node-1": must be node=IQN, such as node-1=iqn.1994-05.com.redhat:node-1`},
		{"nqns", "node-1=x", `properties[nqns]: Invalid value: "node-1=x": must be node=NQN, such as node-1=nqn.2014-08.org.nvmexpress:uuid:1b4e28ba-2fa1-11d2-883f-0016d3cca427`},
		{"wwpns", "a=1:0000090fa534185", `properties[wwpns]: Invalid value: "a=1:0000090fa534185": must be node=WWN, such as node-1=10000090fa534185`},
		{"wwpns", "a=10000090fa534185 b=10000090fa534185", `[properties[wwpns]: Duplicate value: "10000090fa534185", properties[wwnns]: Required value: wwpns and wwnns are given both or not at all for node a, properties[wwnns]: Required value: wwpns and wwnns are given both or not at all for node b]`},
		{"wwpns", "a=10000090fa534185", `properties[wwnns]: Required value: wwpns and wwnns are given both or not at all for node a`},
		{"color", "red", `properties[color]: Forbidden: is not known; known are cloud-config, cloud, cluster, initiators, nqns, wwpns, wwnns`},
	} {
		_, err := ParseProperties(map[string]string{c.key: c.value})
		if err == nil || err.Error() != c.err {
			t.Errorf("%s=%s:\ngot  %v\nwant %s", c.key, c.value, err, c.err)
		}
	}
}

// What the properties say of each node. Names without a node are of volumes that were made before the property had nodes.
func TestNodes(t *testing.T) {
	p, err := ParseProperties(map[string]string{
		"initiators": "a=iqn.1994-05.com.redhat:a", "nqns": "b=nqn.2014-08.org.nvmexpress:uuid:1",
		"wwpns": "b=0x10000090FA534185\nb=10000090fa534186, 10000090fa534187", "wwnns": "b=20000090fa534185 20000090fa534187",
	})
	want := Properties{CloudConfig: "cinder-cloud-config", Cluster: "kubernetes",
		Nodes: []Host{{Name: "a", IQN: "iqn.1994-05.com.redhat:a"}, {Name: "b", NQN: "nqn.2014-08.org.nvmexpress:uuid:1",
			WWPNs: []string{"10000090fa534185", "10000090fa534186"}, WWNNs: []string{"20000090fa534185"}}},
		WWPNs: []string{"10000090fa534187"}, WWNNs: []string{"20000090fa534187"}}
	if err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, %v\nwant %+v", p, err, want)
	}
}

// The tables in docs/cinder-reference.md are those of the code.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../../../docs/cinder-reference.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(data), "\n## The class's ConfigMap\n")
	tables, _, _ = strings.Cut(tables, "\n## What a backend may say\n")
	for _, line := range documentation() {
		if !strings.Contains(tables, line+"\n") {
			t.Errorf("docs/cinder-reference.md lacks the line\n%s", line)
		}
	}
	rows := strings.Count(tables, "\n| `")
	if rows != len(knownParameters)+len(knownProperties) {
		t.Errorf("docs/cinder-reference.md has %d rows for %d parameters and %d properties", rows, len(knownParameters), len(knownProperties))
	}
}

func documentation() []string {
	var lines []string
	add := func(name, meaning, form, preset string) {
		if preset != "" {
			preset = "`" + preset + "`"
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |", name, meaning, form, preset))
	}
	for _, k := range knownParameters {
		add(k.name, k.meaning, k.form, k.defaultValue)
	}
	for _, k := range knownProperties {
		add(k.name, k.meaning, k.form, k.defaultValue)
	}
	return lines
}

func FuzzParse(f *testing.F) {
	for _, k := range knownParameters {
		f.Add(k.name, k.defaultValue)
	}
	f.Fuzz(func(t *testing.T, key, value string) {
		p, err := Parse(map[string]string{key: value})
		if err == nil && (p.FSType == "" || p.InitiatorMode == "" || p.NVMeCSIDriver == "") {
			t.Errorf("%q=%q takes a default away: %+v", key, value, p)
		}
		_, _ = ParseProperties(map[string]string{key: value})
	})
}

// What older versions took as initiators removes its volumes, by as many connections, and makes none.
func TestDoubts(t *testing.T) {
	const a, b = "iqn.1994-05.com.redhat:a", "iqn.1994-05.com.redhat:b"
	for _, c := range []struct {
		initiators string
		nodes      []Host
		doubts     string
	}{
		{"a=" + a + " b=" + b, []Host{{Name: "a", IQN: a}, {Name: "b", IQN: b}}, ""},
		{"a=" + a + " a=" + a, []Host{{Name: "a", IQN: a}}, ""},
		{"Node=" + a, []Host{{Name: "Node", IQN: a}},
			`properties[initiators]: Invalid value: "Node=iqn.1994-05.com.redhat:a": must be node=IQN, such as node-1=iqn.1994-05.com.redhat:node-1`},
		{"a=" + a + " a=" + b, []Host{{Name: "a", IQN: a}, {Name: "a", IQN: b}}, `properties[initiators]: Duplicate value: "a"`},
		{"a=" + a + " b=" + a, []Host{{Name: "a", IQN: a}, {Name: "b", IQN: a}}, `properties[initiators]: Duplicate value: "iqn.1994-05.com.redhat:a"`},
	} {
		p, err := ParseProperties(map[string]string{"initiators": c.initiators})
		if err != nil {
			t.Errorf("%s: %v", c.initiators, err)
		}

		doubts := ""
		if err := p.Doubts.ToAggregate(); err != nil {
			doubts = err.Error()
		}

		if doubts != c.doubts || !reflect.DeepEqual(p.Nodes, c.nodes) {
			t.Errorf("%s: nodes %+v and doubts %q, want %+v and %q", c.initiators, p.Nodes, doubts, c.nodes, c.doubts)
		}
	}
}

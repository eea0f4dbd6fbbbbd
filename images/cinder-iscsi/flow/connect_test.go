package flow

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// shared is a connection of an array with one target for all volumes: the LUN tells them apart.
func shared(target string) fake.Connection {
	return fake.Raw("iscsi", map[string]any{"target_portal": "10.0.0.1:3260", "target_iqn": "iqn.1992-08.com.netapp:" + target, "target_lun": 1})
}

// ports is the connection of an array with Fibre Channel, which has the volume at these ports and this LUN.
func ports(lun int, wwns ...string) fake.Connection {
	return fake.Raw("fibre_channel", map[string]any{"target_wwn": wwns, "target_lun": lun})
}

// TestConnectors: who is said to connect, in each initiator mode, and as whom the kubelet logs in. Each node connects as itself.
func TestConnectors(t *testing.T) {
	const fixed, a, b = "iqn.2026-01.com.example:c1", "iqn.1994-05.com.redhat:a", "iqn.1994-05.com.redhat:b"
	const own = "nqn.2014-08.org.nvmexpress:uuid:"
	const wwn = "500a098280feeba5"
	for title, c := range map[string]struct {
		mode                   string
		connection             fake.Connection
		parameters, properties map[string]string
		want                   []string
	}{
		"per-volume": {"per-volume", fake.ISCSI(), nil, nil, []string{host + " initiator=" + iqnPrefix + name + " nqn=" + own + claimUID + " 127.0.0.1 false"}},
		"fixed": {"fixed", shared("sn.1"), map[string]string{"initiator": fixed, "multipath": "true", "connectorIP": "192.0.2.1"},
			map[string]string{"cluster": "blue", "wwpns": "node-a=10000090fa534185", "wwnns": "node-a=20000090fa534185"},
			[]string{"k8s-blue initiator=" + fixed + " nqn=" + own + claimUID + " 192.0.2.1 true"}},
		"node": {"node", shared("sn.1"), nil, map[string]string{"initiators": "node-a=" + a + ",node-b=" + b},
			[]string{"node-a initiator=" + a + " nqn=" + own + claimUID + " 127.0.0.1 true", "node-b initiator=" + b + " nqn=" + own + claimUID + " 127.0.0.1 true"}},
		"ports": {"node", ports(1, wwn), nil, map[string]string{
			"wwpns": "node-a=10000090fa534185 node-a=10000090fa534186 node-b=10000090fa534187", "wwnns": "node-a=20000090fa534185 node-b=20000090fa534187"},
			[]string{"node-a wwpns=[10000090fa534185 10000090fa534186] wwnns=[20000090fa534185] nqn=" + own + claimUID + " 127.0.0.1 true",
				"node-b wwpns=[10000090fa534187] wwnns=[20000090fa534187] nqn=" + own + claimUID + " 127.0.0.1 true"}},
		"NQNs": {"node", fake.Raw("nvmeof", map[string]any{"target_portal": "10.0.0.1", "target_port": 4420, "transport_type": "tcp", "nqn": "nqn.a", "vol_uuid": id}), nil,
			map[string]string{"nqns": "node-a=" + own + "a node-b=" + own + "b"},
			[]string{"node-a nqn=" + own + "a 127.0.0.1 true", "node-b nqn=" + own + "b 127.0.0.1 true"}},
	} {
		t.Run(title, func(t *testing.T) {
			play(t, func(s *scene) {
				s.parameters, s.properties = map[string]string{"initiatorMode": c.mode}, c.properties
				maps.Copy(s.parameters, c.parameters)
				pv := s.made()
				var got []string
				uuids := map[any]bool{}
				for _, k := range s.cinder.Volumes()[0].Connectors {
					one := fmt.Sprint(k["host"])
					for _, key := range []string{"initiator", "wwpns", "wwnns", "nqn"} {
						if value, has := k[key]; has { // drivers ask whether it is there
							one += fmt.Sprintf(" %s=%v", key, value)
						}
					}
					got = append(got, one+fmt.Sprint(" ", k["ip"], " ", k["multipath"]))
					uuid, _ := k["uuid"].(string)
					uuids[uuid] = isUUID(uuid)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("connectors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
				if len(uuids) != len(c.want) || slices.Contains(slices.Collect(maps.Values(uuids)), false) {
					t.Errorf("UUIDs %v", uuids)
				}
				if i := pv.Spec.ISCSI; i != nil && (i.InitiatorName == nil) != (c.mode == "node") {
					t.Errorf("initiator %v", i.InitiatorName)
				}
				if v := pv.Spec.CSI; v != nil && v.VolumeAttributes["hostNqn"] != "" {
					t.Errorf("attributes %v", v.VolumeAttributes)
				}
				s.want(s.delete(pv), 0, "")
				if got := s.cinder.Calls().Count(callTerminate); got != len(c.want) {
					t.Errorf("%d connections were ended, want %d", got, len(c.want))
				}
			}, fake.WithConnection(c.connection))
		})
	}
}

func isUUID(text string) bool {
	_, err := form.UUID("", text)
	return err == nil
}

// TestOneSource: what a volume says has to be so on each node. Nodes may be told the ports in another order.
func TestOneSource(t *testing.T) {
	const other = "cinder volume " + id + " has another %s for node node-b than for node-a, and a volume of Kubernetes can have one; use a backend or an initiatorMode that gives all nodes the same"
	const a, b = "500a098280feeba5", "500a098280feeba6"
	nguid := strings.Repeat("d", 32)
	iscsi := func(lun int, portal, password string) fake.Connection {
		return fake.Raw("iscsi", map[string]any{"target_portal": portal, "target_iqn": "iqn.1992-08.com.netapp:sn.1", "target_lun": lun,
			"auth_method": "CHAP", "auth_username": "user", "auth_password": password})
	}
	// chosen is the connection of an array with several targets, of which the driver takes any for each node.
	chosen := func(target string, lun int, names ...string) fake.Connection {
		portals, iqns := []string{"10.0.0.1", "10.0.0.2"}[:len(names)], []string{}
		for _, name := range names {
			iqns = append(iqns, "iqn.1992-04.com.emc:"+name)
		}
		return fake.Raw("iscsi", map[string]any{"target_portal": portals[slices.Index(names, target)],
			"target_iqn": "iqn.1992-04.com.emc:" + target, "target_lun": lun, "target_portals": portals, "target_iqns": iqns})
	}
	// disk is the connection of an array with NVMe, whose driver shuffles the portals for each node.
	disk := func(nguid string, addresses ...string) fake.Connection {
		var portals [][]any
		for _, address := range addresses {
			portals = append(portals, []any{address, 4420, "tcp"})
		}
		return fake.Raw("nvmeof", map[string]any{"target_nqn": "nqn.2024-08.com.vastdata:a", "volume_nguid": nguid,
			"portals": portals})
	}
	type row struct {
		first, second fake.Connection
		differs       string
		ports         []string
	}
	playEach(t, map[string]row{
		"same":           {iscsi(1, "10.0.0.1", "ScrubbedSecret16"), iscsi(1, "10.0.0.1", "ScrubbedSecret16"), "", nil},
		"portal":         {iscsi(1, "10.0.0.1", "ScrubbedSecret16"), iscsi(1, "10.0.0.2", "ScrubbedSecret16"), "", nil},
		"target":         {shared("sn.1"), shared("sn.2"), "target", nil},
		"LUN":            {iscsi(1, "10.0.0.1", "ScrubbedSecret16"), iscsi(2, "10.0.0.1", "ScrubbedSecret16"), "LUN", nil},
		"secret":         {iscsi(1, "10.0.0.1", "ScrubbedSecret16"), iscsi(1, "10.0.0.1", "ScrubbedSecret17"), "secret", nil},
		"any target":     {chosen("a0", 1, "a0", "b0"), chosen("b0", 1, "a0", "b0"), "", nil},
		"any, its LUN":   {chosen("a0", 1, "a0", "b0"), chosen("b0", 2, "a0", "b0"), "LUN", nil},
		"any, not all":   {chosen("a0", 1, "a0", "b0"), chosen("b0", 1, "b0"), "target", nil},
		"order":          {ports(1, a, b), ports(1, b, a), "", []string{a, b}},
		"LUN of ports":   {ports(1, a, b), ports(2, a, b), "LUN", nil},
		"a port of both": {ports(1, a, b), ports(1, b), "", []string{b}},
		"other ports":    {ports(1, a), ports(1, b), "target", nil},
		"any portal":     {disk(nguid, "10.0.0.1", "10.0.0.2"), disk(nguid, "10.0.0.2", "10.0.0.1"), "", nil},
		"another disk":   {disk(nguid, "10.0.0.1"), disk(strings.Repeat("e", 32), "10.0.0.1"), "target", nil},
		"another kind":   {ports(1, a, b), shared("sn.1"), "kind of connection", nil},
		"another image":  {fake.Raw("rbd", map[string]any{"name": "a/b"}), fake.Raw("rbd", map[string]any{"name": "a/c"}), "target", nil},
	}, func(s *scene, c row) {
		s.parameters = map[string]string{"initiatorMode": "node", "cephClusterID": "c", "cephSecretName": "s", "cephSecretNamespace": "n"}
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a,node-b=iqn.1994-05.com.redhat:b"}
		s.there(fake.Volume{})
		s.cinder.SetConnection(c.first)
		s.cinder.Fault(fake.On(callConnect).Nth(2).Do(func(fake.Call) { s.cinder.SetConnection(c.second) }))
		v, err := s.provision()
		if c.differs == "" {
			s.want(err, 0, "")
			if fc := v.Source.FC; fc != nil && !slices.Equal(fc.TargetWWNs, c.ports) {
				s.t.Errorf("the volume has the ports %v, want %v", fc.TargetWWNs, c.ports)
			}
			return
		}
		s.want(err, 1, fmt.Sprintf(other, c.differs))
		s.wantCalls(callFind, callReserve, callConnect, callConnect)
	})
}

// TestExportedNodes: only the nodes that a volume was exported to get pods that use it.
func TestExportedNodes(t *testing.T) {
	const zone = "topology.kubernetes.io/zone"
	node := func(name, label string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: label}}}
	}
	in := func(key string, values ...string) corev1.NodeSelectorRequirement {
		return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	type row struct {
		mode string
		zone bool
		want []corev1.NodeSelectorRequirement
	}
	playEach(t, map[string]row{
		"node":             {"node", false, []corev1.NodeSelectorRequirement{in(corev1.LabelHostname, "host-a", "node-b")}},
		"node and zone":    {"node", true, []corev1.NodeSelectorRequirement{in(zone, "nova"), in(corev1.LabelHostname, "host-a", "node-b")}},
		"zone":             {"per-volume", true, []corev1.NodeSelectorRequirement{in(zone, "nova")}},
		"any node can":     {"per-volume", false, nil},
		"nodes not listed": {"node", false, nil},
	}, func(s *scene, c row) {
		s.cluster.SetNodes(node("node-a", "host-a"), node("node-c", "host-c")) // node-b comes later
		s.parameters = map[string]string{"initiatorMode": c.mode}
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a,node-b=iqn.1994-05.com.redhat:b"}
		if c.zone {
			s.request.AllowedTopologies = []map[string][]string{{zone: {"nova"}}}
		}
		if c.mode == "node" && c.want == nil {
			s.refuseKubernetes("GET nodes")
			_, err := s.provision()
			s.want(err, 1, "list nodes: unknown (get nodes)")
			return
		}
		made, err := s.provision()
		s.want(err, 0, "")
		var got []corev1.NodeSelectorRequirement
		if made.NodeAffinity != nil {
			got = made.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions
		}
		if !reflect.DeepEqual(got, c.want) {
			s.t.Errorf("affinity %v, want %v", got, c.want)
		}
	})
}

// TestNoConnection: what Cinder may tell that is no connection.
func TestNoConnection(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{})
		s.cinder.Fault(fake.On(callConnect).Answer(200, "application/json", `{"connection_info": {}}`))
		_, err := s.provision()
		s.want(err, 1, "connect cinder volume "+id+": connection info has no driver_volume_type")
	})
}

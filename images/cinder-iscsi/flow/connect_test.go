package flow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/form"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// shared is a connection of an array with one target for all volumes: the LUN tells them apart.
func shared(target string) fake.Connection {
	return fake.Raw("iscsi", map[string]any{"target_portal": "10.0.0.1:3260", "target_iqn": "iqn.1992-08.com.netapp:" + target, "target_lun": 1})
}

// TestConnectors: who is said to connect, in each initiator mode, and as whom the kubelet logs in.
func TestConnectors(t *testing.T) {
	const fixed, a, b = "iqn.2026-01.com.example:c1", "iqn.1994-05.com.redhat:a", "iqn.1994-05.com.redhat:b"
	const rest = " nqn.2014-08.org.nvmexpress:uuid:" + claimUID
	for mode, c := range map[string]struct {
		connection             fake.Connection
		parameters, properties map[string]string
		initiator              string
		want                   []string
	}{
		"per-volume": {fake.ISCSI(), nil, nil, iqnPrefix + name, []string{host + " " + iqnPrefix + name + rest + " 127.0.0.1 false"}},
		"fixed": {shared("sn.1"), map[string]string{"initiator": fixed, "multipath": "true", "connectorIP": "192.0.2.1"},
			map[string]string{"cluster": "blue", "wwpns": "10000090fa534185", "wwnns": "20000090fa534185"}, fixed,
			[]string{"k8s-blue " + fixed + rest + " 192.0.2.1 true [10000090fa534185] [20000090fa534185]"}},
		"node": {shared("sn.1"), nil, map[string]string{"initiators": "node-a=" + a + ",node-b=" + b}, "",
			[]string{"node-a " + a + rest + " 127.0.0.1 false", "node-b " + b + rest + " 127.0.0.1 false"}},
	} {
		play(t, func(s *scene) {
			s.parameters, s.properties = map[string]string{"initiatorMode": mode}, c.properties
			maps.Copy(s.parameters, c.parameters)
			pv := s.made()
			var got []string
			for _, k := range s.cinder.Volume(name).Connectors {
				one := fmt.Sprint(k["host"], " ", k["initiator"], " ", k["nqn"], " ", k["ip"], " ", k["multipath"])
				if uuid, _ := k["uuid"].(string); !isUUID(uuid) {
					t.Errorf("%s: uuid %v", mode, k["uuid"])
				}
				if ports, has := k["wwpns"]; has { // drivers ask whether it is there
					one += fmt.Sprint(" ", ports, " ", k["wwnns"])
				}
				got = append(got, one)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("connectors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if i := pv.Spec.ISCSI.InitiatorName; (i != nil) != (c.initiator != "") || i != nil && *i != c.initiator {
				t.Errorf("%s: initiator %v, want %q", mode, i, c.initiator)
			}
			s.want(s.delete(pv), 0, "")
			if got := s.cinder.Calls().Count(callTerminate); got != len(c.want) {
				t.Errorf("%s: %d connections were ended, want %d", mode, got, len(c.want))
			}
		}, fake.WithConnection(c.connection))
	}
}

func isUUID(text string) bool {
	_, err := form.UUID("", text)
	return err == nil
}

// TestOneSource: a volume has one target, LUN and secret, so that all nodes have to be told the same.
func TestOneSource(t *testing.T) {
	play(t, func(s *scene) {
		s.parameters = map[string]string{"initiatorMode": "node"}
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a,node-b=iqn.1994-05.com.redhat:b"}
		s.there(fake.Volume{})
		s.cinder.Fault(fake.On(callConnect).Nth(2).Do(func(fake.Call) { s.cinder.SetConnection(shared("sn.2")) }))
		_, err := s.provision()
		s.want(err, 1, "cinder volume "+id+" has another target, LUN or secret for node node-b than for the first one, and a volume can have one; use another initiatorMode")
		s.wantCalls(callFind, callReserve, callConnect, callConnect)
	}, fake.WithConnection(shared("sn.1")))
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

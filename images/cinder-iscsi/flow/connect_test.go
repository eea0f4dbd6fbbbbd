package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// TestConnectors: who is said to connect, in each initiator mode, and as whom the kubelet logs in.
func TestConnectors(t *testing.T) {
	const fixed, a, b = "iqn.2026-01.com.example:c1", "iqn.1994-05.com.redhat:a", "iqn.1994-05.com.redhat:b"
	const rest = " nqn.2014-08.org.nvmexpress:uuid:" + claimUID
	shared := fake.ISCSIShared("iqn.1992-08.com.netapp:sn.1")
	for mode, c := range map[string]struct {
		connection             fake.Connection
		parameters, properties map[string]string
		initiator              string
		want                   []string
	}{
		"per-volume": {fake.ISCSI(), nil, nil, iqnPrefix + "pvc-" + claimUID,
			[]string{host + " " + iqnPrefix + "pvc-" + claimUID + rest + " 127.0.0.1 false"}},
		"fixed": {shared, map[string]string{"initiator": fixed, "multipath": "true", "connectorIP": "192.0.2.1"},
			map[string]string{"cluster": "blue", "wwpns": "10000090fa534185", "wwnns": "20000090fa534185"}, fixed,
			[]string{"k8s-blue " + fixed + rest + " 192.0.2.1 true [10000090fa534185] [20000090fa534185]"}},
		"node": {shared, nil, map[string]string{"initiators": "node-a=" + a + ",node-b=" + b}, "",
			[]string{"node-a " + a + rest + " 127.0.0.1 false", "node-b " + b + rest + " 127.0.0.1 false"}},
	} {
		t.Run(mode, func(t *testing.T) {
			play(t, func(s *scene) {
				s.parameters, s.properties = map[string]string{"initiatorMode": mode}, c.properties
				for key, value := range c.parameters {
					s.parameters[key] = value
				}
				pv := s.made()
				var got []string
				for _, k := range s.cinder.Volume(name).Connectors {
					one := fmt.Sprint(k["host"], " ", k["initiator"], " ", k["nqn"], " ", k["ip"], " ", k["multipath"])
					if ports, has := k["wwpns"]; has { // drivers ask whether it is there
						one += fmt.Sprint(" ", ports, " ", k["wwnns"])
					}
					got = append(got, one)
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("connectors\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
				}
				initiator := ""
				if i := pv.Spec.ISCSI.InitiatorName; i != nil {
					initiator = *i
				}
				if initiator != c.initiator {
					t.Errorf("initiator %q, want %q", initiator, c.initiator)
				}
				s.want(s.delete(pv), 0, "")
				if got := s.cinder.Calls().Count(callTerminate); got != len(c.want) {
					t.Errorf("%d connections were ended, want %d", got, len(c.want))
				}
			}, fake.WithConnection(c.connection))
		})
	}
}

// TestHost: the host's name fits arrays that take 23 characters, and a short UID is taken whole.
func TestHost(t *testing.T) {
	for uid, want := range map[string]string{claimUID: "k8s-8b6e7a3e0d9f4a539d", "1-2": "k8s-12"} {
		f := &Flow{}
		f.Request.Claim.UID = uid
		if got := f.host(); got != want || len(got) > 23 {
			t.Errorf("%s: host %s, want %s", uid, got, want)
		}
	}
}

// TestOneSource: a volume has one target, LUN and secret, so that all nodes have to be told the same.
func TestOneSource(t *testing.T) {
	play(t, func(s *scene) {
		s.parameters = map[string]string{"initiatorMode": "node"}
		s.properties = map[string]string{"initiators": "node-a=iqn.1994-05.com.redhat:a,node-b=iqn.1994-05.com.redhat:b"}
		s.there(fake.Volume{})
		s.cinder.Fault(fake.On(callConnect).Nth(2).Do(func(fake.Call) { s.cinder.SetConnection(fake.ISCSIShared("iqn.1992-08.com.netapp:sn.2")) }))
		_, err := s.provision()
		s.want(err, 1, "cinder volume "+id+" has another target, LUN or secret for node node-b than for the first one, and a volume can have one; use another initiatorMode")
		s.wantCalls(callFind, callReserve, callConnect, callConnect)
	}, fake.WithConnection(fake.ISCSIShared("iqn.1992-08.com.netapp:sn.1")))
}

// TestNoConnection: what Cinder may tell that is no connection.
func TestNoConnection(t *testing.T) {
	play(t, func(s *scene) {
		s.there(fake.Volume{})
		s.cinder.Fault(fake.On(callConnect).Answer(200, "application/json", `{"connection_info": {}}`))
		_, err := s.provision()
		s.want(err, 1, "connect cinder volume "+id+": connection info has no driver_volume_type")
	})
	// A target of several volumes does not do where the volume has an initiator of its own.
	play(t, func(s *scene) {
		_, err := s.provision()
		s.want(err, 64, "map iscsi connection of cinder volume "+s.cinder.Calls().Of(callConnect)[0].ID+": target iqn.1992-08.com.netapp:sn.1 is shared…")
	}, fake.WithConnection(fake.ISCSIShared("iqn.1992-08.com.netapp:sn.1")))
}

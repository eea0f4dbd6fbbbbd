package flow

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/cinder"
	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

const (
	nodeA, nodeB = "node-a", "node-b.example.com"
	server       = "22222222-2222-2222-2222-222222222222"
)

// multi is a type whose volumes several nodes can have.
var multi = fake.WithType(fake.Type{Name: "multi", ExtraSpecs: map[string]string{"multiattach": "<is> True"}})

// playNodes plays a scene in which nodes attach the volume, which is made.
func playNodes(t *testing.T, act func(*scene), options ...fake.Option) {
	t.Helper()
	play(t, func(s *scene) { s.ofNodes(); act(s) }, options...)
}

func (s *scene) ofNodes() {
	s.parameters = map[string]string{"initiatorMode": "attach"}
	s.made()
}

// ofSeveralNodes makes a raw device that several nodes can have.
func (s *scene) ofSeveralNodes() {
	s.parameters = map[string]string{"initiatorMode": "attach", "type": "multi"}
	s.request.AccessModes, s.request.VolumeMode = []string{"ReadWriteMany"}, "Block"
	s.made()
}

func (s *scene) of(node string) {
	s.request.Attachment = &contract.AttachmentRequest{Name: "csi-1", UID: claimUID, Node: node,
		Connector: fmt.Sprintf(`{"iqn": "iqn.1994-05.com.redhat:%s", "ip": "10.0.0.3", "later": {}}`, node)}
}

func (s *scene) attach(node string) (map[string]string, error) {
	s.of(node)
	return s.attachIn(s.context())
}

func (s *scene) attachIn(ctx context.Context) (map[string]string, error) {
	s.t.Helper()
	published, err := s.flow().Attach(ctx, s.pv)
	if (published == nil) != (err != nil) {
		s.t.Errorf("published %v, error %v", published, err)
	}
	s.wantNoSecret(fmt.Sprint(published, err, s.log.String()))
	return published, err
}

func (s *scene) detach(node string) error {
	s.of(node)
	err := s.flow().Detach(s.context(), s.pv)
	s.wantNoSecret(fmt.Sprint(err, s.log.String()))
	return err
}

func (s *scene) wantNoSecret(output string) {
	s.t.Helper()
	for _, secret := range append(s.cinder.Secrets(), "Scrubbed") {
		if strings.Contains(output, secret) {
			s.t.Error("a secret was printed")
		}
	}
}

// wantNodes checks which nodes have the volume, in Cinder and by their credentials in the Secret.
func (s *scene) wantNodes(nodes ...string) {
	s.t.Helper()
	var devices, keys, got []string
	for _, node := range nodes {
		devices = append(devices, "attached /kubernetes/"+name+"/"+node)
		keys = append(keys, node+".password", node+".username")
	}
	for _, a := range s.cinder.Volume(name).Attachments {
		got = append(got, a.Status+" "+a.Device)
	}
	slices.Sort(devices)
	slices.Sort(got)
	if !slices.Equal(got, devices) {
		s.t.Errorf("attachments %q, want %q", got, devices)
	}
	slices.Sort(keys)
	if got := slices.Sorted(maps.Keys(s.cluster.Secrets()[name].Data)); !slices.Equal(got, keys) {
		s.t.Errorf("the secret has %q, want %q", got, keys)
	}
}

// TestAttach: what a provision, an attach, a detach and a delete ask for, and what each leaves. Each can be repeated.
func TestAttach(t *testing.T) {
	look := []string{callFind, callRecords}
	attaches := slices.Concat(look, []string{callBegin}, look, []string{callUpdate}, look, []string{callComplete}, look, look)
	play(t, func(s *scene) {
		s.parameters = map[string]string{"initiatorMode": "attach"}
		_, err := s.provision()
		s.want(err, 0, "")
		s.wantCalls(callFind, callCreate, callFind, callFind)
		pv := s.made()
		want := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: "dispatcher.flex-provisioner.io", VolumeHandle: name, FSType: "ext4", VolumeAttributes: map[string]string{"stager": "iscsi"},
			NodeStageSecretRef: &corev1.SecretReference{Name: name, Namespace: "flex-provisioners"},
		}}
		if !reflect.DeepEqual(pv.Spec.PersistentVolumeSource, want) {
			t.Errorf("source %+v", pv.Spec.CSI)
		}
		s.wantVolumes("available")
		s.wantSecrets(0)

		v := s.cinder.Volume(name)
		paths := map[string]string{"paths": "127.0.0.1:3260/iqn.2010-10.org.openstack:volume-" + v.ID + "/1"}
		for _, calls := range [][]string{attaches, slices.Concat(look, look)} {
			published, err := s.attach(nodeA)
			s.want(err, 0, "")
			if !maps.Equal(published, paths) {
				t.Errorf("published %v", published)
			}
			s.wantCalls(calls...)
			s.wantNodes(nodeA)
		}
		v = s.cinder.Volume(name)
		a, c := v.Attachments[0], v.Connectors[0]
		if a.Host != nodeA || a.Instance != "" || v.Status != "in-use" || len(v.Connectors) != 1 {
			t.Errorf("attachment %+v of volume %+v", a, v)
		}
		wanted := map[string]any{"host": nodeA, "initiator": "iqn.1994-05.com.redhat:node-a", "ip": "10.0.0.3", "multipath": true,
			"mountpoint": a.Device, "platform": "x86_64", "os_type": "linux", "uuid": uuidOf(nodeA), "system uuid": uuidOf(nodeA)}
		if !maps.Equal(c, wanted) {
			t.Errorf("connector %v", c)
		}
		secret := s.cluster.Secrets()[name]
		if string(secret.Data["node-a.password"]) != v.CHAPPassword || string(secret.Data["node-a.username"]) != v.CHAPUser ||
			secret.Labels[contract.LabelClaimUID] != claimUID {
			t.Errorf("secret of type %s with labels %v", secret.Type, secret.Labels)
		}
		_, err = s.provision() // its PersistentVolume was made by another run
		s.want(err, 0, "")
		s.cinder.ForgetCalls()

		for _, calls := range [][]string{slices.Concat(look, []string{callForget}, look, look), slices.Concat(look, look)} {
			s.want(s.detach(nodeA), 0, "")
			s.wantCalls(calls...)
			s.wantNodes()
			s.wantVolumes("available")
		}
		s.want(s.delete(pv), 0, "")
		s.wantCalls(callFind, callRecords, callFind, callDelete, callFind, callFind)
		s.wantVolumes()
		s.wantSecrets(0)
		s.want(s.detach(nodeA), 0, "") // the volume is gone
		s.wantSecrets(0)
		_, err = s.attach(nodeA)
		s.want(err, 1, "there is no cinder volume "+name+"; did somebody delete it?")
	})
}

// TestSeveralNodes: each node has its own attachment and credentials, and loses its own.
func TestSeveralNodes(t *testing.T) {
	play(t, func(s *scene) {
		s.ofSeveralNodes()
		for _, node := range []string{nodeA, nodeB} {
			_, err := s.attach(node)
			s.want(err, 0, "")
		}
		s.wantNodes(nodeA, nodeB)
		s.want(s.detach(nodeA), 0, "")
		s.wantNodes(nodeB)
		s.wantVolumes("in-use *")
		if v := s.cinder.Volume(name); !v.Exported || len(v.Connectors) != 1 || v.Connectors[0]["host"] != nodeB {
			t.Errorf("volume %+v", v)
		}
		s.want(s.delete(s.pv), 0, "") // whatever became of the detach of the other node
		s.wantVolumes()
	}, multi)
}

// TestCredentials: some arrays give each node others, and several targets and LUNs.
func TestCredentials(t *testing.T) {
	array := func(password, wwn string, lun int) fake.Connection {
		return fake.Raw("iscsi", map[string]any{"target_portals": []string{"10.0.0.1:3260", "[fd00::1]"}, "target_luns": []int{lun, lun + 1},
			"target_iqns": []string{"iqn.1992-08.com.netapp:a", "iqn.1992-08.com.netapp:b"}, "wwn": wwn,
			"auth_method": "CHAP", "auth_username": "user", "auth_password": password})
	}
	play(t, func(s *scene) {
		s.ofSeveralNodes()
		const wwn = "3624a93700123456789abcdef01234567"
		s.cinder.SetConnection(array("ScrubbedSecretA", wwn, 1))
		published, err := s.attach(nodeA)
		s.want(err, 0, "")
		want := map[string]string{"wwid": wwn, "paths": "10.0.0.1:3260/iqn.1992-08.com.netapp:a/1 [fd00::1]:3260/iqn.1992-08.com.netapp:b/2"}
		if !maps.Equal(published, want) {
			t.Errorf("published %v", published)
		}
		s.cinder.SetConnection(array("ScrubbedSecretB", "x; reboot", 4))
		published, err = s.attach(nodeB)
		s.want(err, 0, "")
		want = map[string]string{"paths": "10.0.0.1:3260/iqn.1992-08.com.netapp:a/4 [fd00::1]:3260/iqn.1992-08.com.netapp:b/5"}
		if !maps.Equal(published, want) {
			t.Errorf("published %v", published)
		}
		s.wantNodes(nodeA, nodeB)
		secret := s.cluster.Secrets()[name].Data
		if string(secret[nodeA+".password"]) != "ScrubbedSecretA" || string(secret[nodeB+".password"]) != "ScrubbedSecretB" {
			t.Error("a node has the credentials of another one")
		}
	}, multi)
	playNodes(t, func(s *scene) { // flex-node gets an empty Secret where there are no credentials
		s.cinder.SetConnection(shared("sn.1"))
		_, err := s.attach(nodeA)
		s.want(err, 0, "")
		s.wantSecrets(1)
		if data := s.cluster.Secrets()[name].Data; len(data) != 0 {
			t.Errorf("the secret has %d keys", len(data))
		}
	})
}

// TestElsewhere: a volume of one node is given to the next one after it was taken from the first, and nobody's but ours is
// taken away.
func TestElsewhere(t *testing.T) {
	playNodes(t, func(s *scene) {
		volume := s.cinder.Volume(name).ID
		_, err := s.attach(nodeB)
		s.want(err, 0, "")
		_, err = s.attach(nodeA)
		s.want(err, 75, "cinder volume "+volume+" is still attached to node "+nodeB+", and its type allows one node at a time")
		s.want(s.detach(nodeA), 0, "")
		s.wantNodes(nodeB)
		s.want(s.delete(nil), 75, "volume "+name+" is still attached to a node") // an undo of a former leader
		s.wantNodes(nodeB)
		s.want(s.detach(nodeB), 0, "")
		_, err = s.attach(nodeA)
		s.want(err, 0, "")
		s.wantNodes(nodeA)
		s.want(s.delete(s.pv), 0, "")
		s.wantVolumes()
	})
	for _, theirs := range []fake.Attachment{{Instance: server, Device: "/dev/vdb"}, {Instance: server, Device: "/kubernetes/" + name + "/" + nodeA}} {
		play(t, func(s *scene) {
			s.parameters = map[string]string{"initiatorMode": "attach"}
			s.there(fake.Volume{Status: "in-use", Attachments: []fake.Attachment{theirs}})
			s.pv = pvOf(id)
			const elsewhere = "cinder volume " + id + " is attached to server " + server + "; detach it there"
			_, err := s.attach(nodeA)
			s.want(err, 1, elsewhere)
			s.want(s.detach(nodeA), 0, "")
			s.want(s.delete(s.pv), 1, elsewhere)
			s.wantVolumes("in-use *")
		})
	}
}

// TestAttachedLate: an attachment that comes while the volume is removed is not torn off.
func TestAttachedLate(t *testing.T) {
	playNodes(t, func(s *scene) {
		s.cinder.Fault(fake.On(callFind).Nth(2).Do(func(fake.Call) {
			_, err := s.attach(nodeA)
			s.want(err, 0, "")
			s.open++ // the outer run's
		}))
		s.want(s.delete(s.pv), 75, "volume "+name+" was attached to a node just now")
		s.wantNodes(nodeA)
		s.want(s.delete(s.pv), 0, "")
		s.wantVolumes()
	})
}

// TestUnattachable: what flex-node cannot reach is refused, and leaves no attachment.
func TestUnattachable(t *testing.T) {
	iscsi := func(field string, value any) fake.Connection {
		data := map[string]any{"target_portal": "10.0.0.1:3260", "target_iqn": "iqn.1992-08.com.netapp:sn.1", "target_lun": 1,
			"auth_method": "CHAP", "auth_username": "user", "auth_password": "ScrubbedSecret16"}
		data[field] = value
		return fake.Raw("iscsi", data)
	}
	const volume, mapped = "cinder volume {id} ", "map iscsi connection of cinder volume {id}: "
	type row struct {
		connection fake.Connection
		err        string
	}
	playEach(t, map[string]row{
		"ports": {ports(1, "500a098280feeba5"), volume + `has a connection of type "fibre_channel", and flex-node can attach iscsi alone; ` +
			"use another initiatorMode, or a volume type with another backend"},
		"ceph":      {fake.RBD(), volume + `has a connection of type "rbd", …`},
		"nfs":       {fake.NFS(), volume + `has a connection of type "nfs", …`},
		"encrypted": {iscsi("encrypted", true), volume + "is encrypted: …"},
		"read-only": {iscsi("access_mode", "ro"), volume + "is read-only; allow writes in cinder"},
		"mode":      {iscsi("access_mode", "rx"), `connect cinder volume {id}: access_mode "rx" is neither rw nor ro`},
		"portal":    {iscsi("target_portal", "10.0.0.1:3260 -o delete"), mapped + `target_portal "10.0.0.1:3260 -o delete" is not an IP address…`},
		"target":    {iscsi("target_iqn", "iqn.2010-10.org:a/../b"), mapped + `target_iqn "iqn.2010-10.org:a/../b" is not…`},
		"LUN":       {iscsi("target_lun", 256), mapped + "target_lun 256 is not between 0 and 255, …"},
		"password":  {iscsi("auth_password", "ScrubbedSecret16\nnode.startup = automatic"), mapped + "auth_password is not 1 to 255 printable ASCII characters…"},
		"method":    {iscsi("auth_method", "KRB5"), mapped + `auth_method is "KRB5"; only CHAP is known`},
		"paths":     {iscsi("target_portals", slices.Repeat([]string{"10.0.0.1"}, 65)), mapped + "target_portals has 65 items; it may have 64"},
	}, func(s *scene, c row) {
		s.ofNodes()
		s.cinder.SetConnection(c.connection)
		_, err := s.attach(nodeA)
		s.want(err, 64, strings.ReplaceAll(c.err, "{id}", s.cinder.Volume(name).ID))
		s.wantVolumes("available")
		s.wantSecrets(0)
	})
}

// TestHostileNode: a node may say anything of itself.
func TestHostileNode(t *testing.T) {
	const iqn = `"iqn": "iqn.1994-05.com.redhat:a"`
	type row struct{ node, connector, err string }
	long := strings.Repeat("a.", 110) + "a"
	playEach(t, map[string]row{
		"nothing":   {nodeA, "", "node node-a: its connector has no iqn: install open-iscsi there, and let flex-node have the stager iscsi"},
		"a name":    {nodeA, "node-a", "node node-a: its connector has no iqn: install open-iscsi there, and let flex-node have the stager iscsi"},
		"types":     {nodeA, `{"iqn": 1}`, "node node-a: the connector is no JSON of its form: …"},
		"no name":   {nodeA, `{"ip": "10.0.0.1"}`, "node node-a: its connector has no iqn: install open-iscsi there, and let flex-node have the stager iscsi"},
		"name":      {nodeA, `{"iqn": "iqn.1994-05.com.redhat:a\nb"}`, `node node-a: "iqn.1994-05.com.redhat:a\nb" is no name of an iSCSI initiator, …`},
		"NQN":       {nodeA, `{` + iqn + `, "nqn": "nqn.a,b"}`, `node node-a: "nqn.a,b" is no name of an NVMe host, …`},
		"address":   {nodeA, `{` + iqn + `, "ip": "fe80::1%eth0"}`, `node node-a: "fe80::1%eth0" is no IP address`},
		"port":      {nodeA, `{` + iqn + `, "wwpns": ["10000090fa534185", "x"]}`, `node node-a: "x" is no name of a Fibre Channel port: …`},
		"ports":     {nodeA, `{` + iqn + `, "wwpns": [` + strings.Repeat(`"10000090fa534185",`, 64) + `"10000090fa534185"]}`, "node node-a: the connector has 1282 bytes, at most 256 are allowed"},
		"long node": {long, `{` + iqn + `}`, `node "` + long[:100] + `"...: its name is none that Cinder could keep`},
		"node":      {"../a", `{` + iqn + `}`, `node "../a": its name is none that Cinder could keep`},
	}, func(s *scene, c row) {
		s.ofNodes()
		s.of(c.node)
		s.request.Attachment.Connector = c.connector
		_, err := s.attachIn(s.context())
		s.want(err, 64, c.err)
		s.wantCalls()
		s.wantVolumes("available")
	})
	playNodes(t, func(s *scene) {
		s.of(nodeA)
		s.request.Attachment.Connector = `{` + iqn + `, "nqn": "nqn.2014-08.org.nvmexpress:uuid:1", "wwpns": ["10000090fa534185"]}`
		_, err := s.attachIn(s.context())
		s.want(err, 0, "")
		c := s.cinder.Volume(name).Connectors[0]
		if c["nqn"] != "nqn.2014-08.org.nvmexpress:uuid:1" || fmt.Sprint(c["wwpns"]) != "[10000090fa534185]" || c["ip"] != "127.0.0.1" || c["mode"] != nil {
			t.Errorf("connector %v", c)
		}
	})
}

// TestAttachFails: what an error of each call leaves, and that the next attempt gets on with it.
func TestAttachFails(t *testing.T) {
	type row struct {
		fault  fake.Fault
		code   int
		err    string
		status string
	}
	playEach(t, map[string]row{
		"records":        {fake.On(callRecords).Refuse(403, "not you"), 64, "attachments {id}: not you (HTTP 403)", "available"},
		"not reserved":   {fake.On(callBegin).Refuse(400, "Invalid volume: busy"), 1, "create attachment {id}: Invalid volume: busy (HTTP 400)", "available"},
		"forbidden":      {fake.On(callBegin).Refuse(403, "not you"), 64, "create attachment {id}: not you (HTTP 403)", "available"},
		"no attachments": {fake.On(callBegin).Refuse(406, "too new"), 64, "create attachment {id}: too new (HTTP 406)", "available"},
		"strange ID": {fake.On(callBegin).Answer(200, "application/json", `{"attachment": {"id": "../x"}}`), 1,
			`cinder's answer: volume {id}: attachment ID "../x" is not a UUID; is the endpoint right?`, "available"},
		"connector":     {fake.On(callUpdate).Refuse(400, "Invalid input received: no"), 64, "update attachment {a}: Invalid input received: no (HTTP 400)", "available"},
		"backend":       {fake.On(callUpdate).Refuse(500, "down"), 1, "update attachment {a}: down (HTTP 500)", "available"},
		"no answer yet": {fake.On(callUpdate).Refuse(504, "late"), 1, "update attachment {a}: late (HTTP 504)", "reserved *"},
		"lost":          {fake.On(callUpdate).AfterEffect().Close(), 1, "update attachment {a}: no answer from cinder: …", "attaching *"},
		"removed":       {fake.On(callUpdate).Refuse(404, "gone"), 1, "update attachment {a}: gone (HTTP 404)", "reserved *"},
		"not complete":  {fake.On(callComplete).Refuse(500, "down"), 1, "complete attachment {a}: down (HTTP 500)", "attaching *"},
	}, func(s *scene, c row) {
		s.ofNodes()
		s.cinder.Fault(c.fault)
		_, err := s.attach(nodeA)
		var attachment string
		for _, call := range s.cinder.Calls().Of(callUpdate) {
			attachment = call.ID
		}
		s.want(err, c.code, strings.NewReplacer("{id}", s.cinder.Volume(name).ID, "{a}", attachment).Replace(c.err))
		s.wantVolumes(c.status)
		_, err = s.attach(nodeA)
		s.want(err, 0, "")
		s.wantNodes(nodeA)
	})
	playNodes(t, func(s *scene) { // what cannot be undone is not called undone
		s.cinder.SetConnection(fake.NFS())
		refuse(callForget, 500, "down")(s)
		_, err := s.attach(nodeA)
		s.want(err, 1, "cinder volume "+s.cinder.Volume(name).ID+" has a connection of type \"nfs\", …")
		s.wantVolumes("in-use *")
		s.refuseKubernetes("POST secrets")
		s.cinder.SetConnection(fake.ISCSI())
		s.want(s.detach(nodeA), 1, "create secret flex-provisioners/"+name+": no")
		s.wantVolumes("available")
		_, err = s.attach(nodeA)
		s.want(err, 1, "create secret flex-provisioners/"+name+": no")
	})
}

// TestPatience: an attachment that nobody completes is completed where it has a connection, whoever's it is. Without one it
// is in the way for some time, and then removed.
func TestPatience(t *testing.T) {
	for _, detach := range []bool{false, true} {
		play(t, func(s *scene) {
			s.ofSeveralNodes()
			s.cinder.Fault(fake.On(callComplete).Refuse(500, "down"))
			if _, err := s.attach(nodeB); err == nil {
				t.Error("attached")
			}
			if detach {
				s.want(s.detach(nodeA), 0, "")
				s.wantNodes(nodeB)
				return
			}
			_, err := s.attach(nodeA)
			s.want(err, 0, "")
			s.wantNodes(nodeA, nodeB)
		}, multi)
		playNodes(t, func(s *scene) {
			s.cinder.Fault(fake.On(callUpdate).Close())
			if _, err := s.attach(nodeB); err == nil {
				t.Error("attached")
			}
			s.wantVolumes("reserved *")
			if detach {
				s.want(s.detach(nodeA), 0, "")
				s.wantNodes()
				return
			}
			_, err := s.attach(nodeA)
			s.want(err, 0, "")
			s.wantNodes(nodeA)
		})
	}
}

// strikes are all ways to die at a call, and to lose its answer.
func strikes(test func(after, killed, cluster bool, n int) (hit bool)) {
	for i := range 8 {
		for n := 1; test(i&1 > 0, i&2 > 0, i&4 > 0, n); n++ {
			continue
		}
	}
}

// struck runs with a blow at the n-th call to Cinder or to Kubernetes, and reports whether there was one.
func (s *scene) struck(after, killed, cluster bool, n int, run func(context.Context)) (hit bool) {
	ctx, kill := context.WithCancel(s.context())
	defer kill()
	strike := func() {
		hit = true
		if killed {
			kill()
		}
	}
	if cluster {
		s.cluster.SetFault(func(i int, _ string) apiserver.Fault {
			if i != n {
				return apiserver.Fault{}
			}
			return apiserver.Fault{Before: !after, After: after, Do: strike}
		})
		defer s.cluster.SetFault(nil)
	} else {
		fault := fake.On("*").Nth(n).Do(func(fake.Call) { strike() }).Close()
		if after {
			fault = fault.AfterEffect()
		}
		defer s.cinder.Fault(fault).Remove()
	}
	run(ctx)
	return hit
}

// TestAttachStruck: whatever call an attach or a detach dies at, the next one ends with one attachment of the node, or none.
// The other node keeps its own.
func TestAttachStruck(t *testing.T) {
	struck := 0
	strikes(func(after, killed, cluster bool, n int) (hit bool) {
		play(t, func(s *scene) {
			s.ofSeveralNodes()
			_, err := s.attach(nodeB)
			s.want(err, 0, "")
			s.of(nodeA)
			hit = s.struck(after, killed, cluster, n, func(ctx context.Context) { _, _ = s.flow().Attach(ctx, s.pv) })
			_, err = s.attach(nodeA)
			s.want(err, 0, "")
			s.wantNodes(nodeA, nodeB)
			if v := s.cinder.Volume(name); len(v.Connectors) != 2 {
				t.Errorf("connectors %v", v.Connectors)
			}
		}, multi)
		play(t, func(s *scene) {
			s.ofSeveralNodes()
			for _, node := range []string{nodeB, nodeA} {
				_, err := s.attach(node)
				s.want(err, 0, "")
			}
			again := s.struck(after, killed, cluster, n, func(ctx context.Context) { _ = s.flow().Detach(ctx, s.pv) })
			s.want(s.detach(nodeA), 0, "")
			s.wantNodes(nodeB)
			hit = hit || again
		}, multi)
		play(t, func(s *scene) { // and a detach or a delete after it takes all away
			s.ofNodes()
			s.of(nodeA)
			s.struck(after, killed, cluster, n, func(ctx context.Context) { _, _ = s.flow().Attach(ctx, s.pv) })
			if n%2 > 0 {
				s.want(s.detach(nodeA), 0, "")
				s.wantNodes()
			}
			s.want(s.delete(s.pv), 0, "")
			s.wantVolumes()
			s.wantSecrets(0)
		})
		struck++
		return hit
	})
	if struck < 4*13+4*2 {
		t.Errorf("%d calls were struck", struck)
	}
}

// TestReadingNodes: several nodes read a file system, for which the type has to allow several attachments.
func TestReadingNodes(t *testing.T) {
	play(t, func(s *scene) {
		s.parameters = map[string]string{"initiatorMode": "attach", "smartclone": "true"}
		s.cinder.AddVolume(fake.Volume{Name: "pvc-" + server, Size: 10, Project: project, Metadata: map[string]string{metaClaimUID: server}, Type: "multi"})
		s.request.AccessModes = []string{"ReadOnlyMany"}
		s.request.Source = &contract.Source{Namespace: "team-a", Name: "original", VolumeName: "pvc-" + server}
		_, err := s.provision()
		s.want(err, 64, `access mode ReadOnlyMany: volume type that is cinder's default does not say multiattach="<is> True"; use a class whose type does, or ask for ReadWriteOnce`)
		s.parameters["type"] = "multi"
		pv := s.made()
		s.request.Source = nil
		s.request.AccessModes = nil // the PersistentVolume says it
		if !pv.Spec.CSI.ReadOnly {
			t.Errorf("source %+v", pv.Spec.CSI)
		}
		for _, node := range []string{nodeA, nodeB} {
			_, err := s.attach(node)
			s.want(err, 0, "")
		}
		s.wantNodes(nodeA, nodeB)
		if a := s.cinder.Volume(name).Attachments[0]; a.Mode != "ro" {
			t.Errorf("attachment %+v", a)
		}
	}, multi)
}

// TestWrongMode: volumes of the other modes are not attached, and their Secret stays as it is.
func TestWrongMode(t *testing.T) {
	play(t, func(s *scene) {
		s.made()
		const wrong = "volume " + name + " is of initiatorMode per-volume, which attaches nothing later"
		_, err := s.attach(nodeA)
		s.want(err, 64, wrong)
		s.want(s.detach(nodeA), 64, wrong)
		s.wantCalls()
		if s.cluster.Secrets()[name].Data["node.session.auth.password"] == nil {
			t.Error("the secret was changed")
		}
	})
}

// TestAttachedElsewise: a volume that nodes attach is expanded with and without them, and listed with its attachments.
func TestAttachedElsewise(t *testing.T) {
	playNodes(t, func(s *scene) {
		s.want(s.expand(s.pv, 11), 0, "")
		_, err := s.attach(nodeA)
		s.want(err, 0, "")
		s.want(s.expand(s.pv, 12), 0, "")
		v := s.cinder.Volume(name)
		if v.Size != 12 || v.Status != "in-use" {
			t.Errorf("volume %+v", v)
		}
		list, err := s.flow().List(t.Context())
		s.want(err, 0, "")
		want := "openstack --os-volume-api-version 3.27 volume attachment delete " + v.Attachments[0].ID + " && openstack volume delete " + v.ID
		if len(list) != 1 || list[0].Remove != want {
			t.Errorf("it lists %v", list)
		}
		// With credentials for another project the volume would seem to be gone.
		s.pv.Annotations[AnnProject] = "another"
		s.want(s.detach(nodeA), 1, "volume "+name+` was made in project "another", but…`)
		s.wantVolumes("in-use *")
	})
}

// TestToAttach: the next step to a volume, by its state and its attachments.
func TestToAttach(t *testing.T) {
	us := attacher{device: "/kubernetes/pvc-1", perNode: true}
	of := func(id, node string) cinder.Attachment {
		return cinder.Attachment{AttachmentID: id, Device: us.device + "/" + node}
	}
	info := map[string]any{"driver_volume_type": "iscsi"}
	for _, c := range []struct {
		volume  cinder.Volume
		records []cinder.Record
		want    step
	}{
		{cinder.Volume{Status: "available"}, nil, reserve},
		{cinder.Volume{Status: "in-use"}, nil, wait},
		{cinder.Volume{Status: "in-use", Multiattach: true}, nil, reserve},
		{cinder.Volume{Status: "reserved"}, nil, wait},
		{cinder.Volume{Status: "extending"}, nil, wait},
		{cinder.Volume{Status: "deleting"}, nil, wait},
		{cinder.Volume{Status: "error"}, nil, stop},
		{cinder.Volume{Status: "reserved"}, []cinder.Record{{ID: "made", Status: "reserved"}}, connect},
		{cinder.Volume{Status: "attaching"}, []cinder.Record{{ID: "made", Status: "attaching", ConnectionInfo: info}}, settle},
		{cinder.Volume{Status: "reserved"}, []cinder.Record{{ID: "other", Status: "reserved"}}, settle},
		{cinder.Volume{Status: "in-use"}, []cinder.Record{{ID: "other", Status: "attached", ConnectionInfo: info}}, settle},
		{cinder.Volume{Status: "reserved"}, []cinder.Record{{ID: "other", Status: "reserved", Instance: "s-1"}}, wait},
		{cinder.Volume{Status: "in-use", Attachments: []cinder.Attachment{of("a", "b")}}, []cinder.Record{{ID: "a"}}, busy},
		{cinder.Volume{Status: "in-use", Multiattach: true, Attachments: []cinder.Attachment{of("a", "b")}}, []cinder.Record{{ID: "a"}}, reserve},
		{cinder.Volume{Status: "in-use", Attachments: []cinder.Attachment{of("a", "a")}}, []cinder.Record{{ID: "a"}}, done},
		{cinder.Volume{Status: "reserved", Attachments: []cinder.Attachment{of("a", "a")}}, []cinder.Record{{ID: "made", Status: "reserved"}, {ID: "a"}}, done},
		{cinder.Volume{Status: "in-use", Multiattach: true, Attachments: []cinder.Attachment{{AttachmentID: "a", Device: "/dev/vdb"}}}, []cinder.Record{{ID: "a"}}, stop},
		{cinder.Volume{Status: "in-use", Attachments: []cinder.Attachment{{AttachmentID: "a", Device: us.device}}}, []cinder.Record{{ID: "a"}}, stop},
		{cinder.Volume{Status: "in-use", Attachments: []cinder.Attachment{of("a", "../a")}}, []cinder.Record{{ID: "a"}}, stop},
	} {
		if got := toAttach(&c.volume, c.records, us, "a", "made"); got != c.want {
			t.Errorf("%s %+v with %+v: step %d, want %d", c.volume.Status, c.volume.Attachments, c.records, got, c.want)
		}
	}
}

// TestStepsOfNodes: a volume that nodes attach is made once it is there, whoever has it.
func TestStepsOfNodes(t *testing.T) {
	us := attacher{device: "/kubernetes/pvc-1", perNode: true}
	ours := []cinder.Attachment{{Device: us.device + "/a"}}
	for status, want := range map[string]step{"creating": wait, "available": done, "reserved": done, "attaching": done, "in-use": done,
		"detaching": done, "deleting": wait, "error": stop, "error_deleting": stop, "backing-up": wait} {
		if got := toProvision(&cinder.Volume{Status: status, Attachments: ours}, us); got != want {
			t.Errorf("%s: step %d, want %d", status, got, want)
		}
	}
	if got := toProvision(&cinder.Volume{Status: "error"}, us); got != clear {
		t.Errorf("error: step %d", got)
	}
}

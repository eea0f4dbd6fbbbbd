package main

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/images/cinder-iscsi/flow"
	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// ourMetadata marks a volume as made by an earlier run.
var ourMetadata = map[string]string{"flex-provisioner.io/claim-uid": name[4:]}

// A provision and an undo go on from whatever state a volume is in.
func TestStatesOfAVolume(t *testing.T) {
	t.Parallel()
	ours := []fake.Attachment{{Host: "k8s-8b6e7a3e0d9f4a539d", Device: "/kubernetes/" + name}}
	theirs := []fake.Attachment{{Host: "node-1", Device: "/dev/vdb"}}
	server := []fake.Attachment{{Instance: "22222222-2222-2222-2222-222222222222"}}
	const id = "dae46dbd-d712-48fe-af72-de0872d24140"
	const stuck = "cinder volume " + id + " is "
	for _, c := range []struct {
		status          string
		attached        []fake.Attachment
		provision, undo string // errors
	}{
		{"available", nil, "", ""},
		{"attaching", nil, "", ""},
		{"in-use", ours, "", ""},
		{"error", nil, "", ""},
		{"in-use", theirs, stuck + `attached to host "node-1"; detach it there`, stuck + `attached to host "node-1"; detach it there`},
		{"in-use", server, stuck + "attached to server 22222222-2222-2222-2222-222222222222; detach it there", stuck + "attached to server 22222222-2222-2222-2222-222222222222; detach it there"},
		{"error_deleting", nil, stuck + "error_deleting, and cinder does not say why", stuck + "error_deleting, and cinder does not say why"},
		{"error_extending", nil, stuck + "error_extending, and cinder does not say why", ""},
		{"maintenance", nil, stuck + "maintenance, and cinder does not say why", stuck + "maintenance, and cinder does not say why"},
	} {
		for _, undo := range []bool{false, true} {
			s := newStage(t, fake.WithPace(fake.Reads(0)))
			s.cinder.AddVolume(fake.Volume{ID: id, Name: name, Status: c.status, Attachments: c.attached, Size: 10, Metadata: ourMetadata, Project: project})
			run, want, good := s.provision, c.provision, s.wantOne
			if undo {
				run, want, good = s.undo, c.undo, s.wantNothing
			}
			code := 0
			if want != "" {
				code = 1
			}
			run(t.Context()).want(t, code, want)
			if code == 0 {
				good()
			} else if len(s.cinder.Volumes()) != 1 || s.cinder.Volume(id).Status != c.status {
				t.Errorf("%s: now there is\n%s", c.status, s.cinder.State())
			}
		}
	}
}

// A volume with our name that does not say whose it is is not touched.
func TestForeignVolume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	v := s.cinder.AddVolume(fake.Volume{Name: name, Size: 10, Project: project})
	const text = " is called \"" + name + "\" but has not flex-provisioner.io/claim-uid=8b6e7a3e-0d9f-4a53-9d0a-6d1f5b7f2c11 in its metadata, so it is not ours; rename it or set the metadata"
	s.provision(t.Context()).want(t, 64, "cinder volume "+v.ID+text)
	s.undo(t.Context()).want(t, 64, "cinder volume "+v.ID+text)
	if got := s.cinder.Volume(name); got.Status != "available" {
		t.Errorf("it is %s", got.Status)
	}
}

// Two volumes of a claim, as two runs that did not see each other make: one is used, and a delete removes both.
func TestTwoVolumes(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	first := s.cinder.AddVolume(fake.Volume{Name: name, Size: 10, Metadata: ourMetadata, Project: project})
	s.cinder.AddVolume(fake.Volume{Name: name, Size: 10, Metadata: ourMetadata, Project: project})
	s.provision(t.Context()).want(t, 0, "")
	s.cinder.Settle()
	s.wantOne()
	if got := s.cinder.Volume(name).ID; got != first.ID {
		t.Errorf("the younger one was kept")
	}
	s.cinder.AddVolume(fake.Volume{Name: name, Size: 10, Metadata: ourMetadata, Project: project})
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
}

// Somebody renamed the volume in Cinder; its ID is on the PersistentVolume.
func TestRenamedVolume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cinder.AddVolume(fake.Volume{ID: "dae46dbd-d712-48fe-af72-de0872d24140", Name: "the database", Size: 10, Metadata: ourMetadata, Project: project})
	pv := sdktest.Skeleton(s.request("provision"))
	pv.Annotations = map[string]string{flow.AnnVolumeID: "dae46dbd-d712-48fe-af72-de0872d24140"}
	s.run(t.Context(), s.request("delete"), pv).want(t, 0, "")
	s.wantNothing()
}

// The run ends before the pod's deadline, and says what it waited for.
func TestDeadline(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithPace(fake.After(time.Hour))).asking(func(r *sdk.Request) { r.TimeoutSeconds = 1 })
	start := time.Now()
	got := s.provision(t.Context())
	got.want(t, 1, "gave up before the pod's deadline of 1 s while cinder volume "+s.cinder.Volume(name).ID+" is creating: …")
	if took := time.Since(start); took >= time.Second {
		t.Errorf("it took %s", took)
	}
	s.undo(t.Context()).want(t, 1, "gave up before the pod's deadline of 1 s while cinder volume "+s.cinder.Volume(name).ID+" is creating: …")
}

// SIGTERM ends a wait at once.
func TestStopped(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithPace(fake.After(time.Hour)))
	ctx, stop := context.WithCancel(t.Context())
	s.cinder.Fault(fake.On("GET /volumes/detail").Nth(3).Do(func(fake.Call) { stop() }))
	s.provision(ctx).want(t, 1, "stopped while cinder volume "+s.cinder.Volume(name).ID+" is creating: …")
}

// What can be no native volume is removed again before it is refused.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	for kind, connection := range map[string]fake.Connection{
		"nfs": fake.NFS(), "encrypted": fake.Encrypted(), "shared": fake.ISCSIShared("iqn.1992-08.com.netapp:sn.1"),
		"fc without wwpns": fake.FibreChannel(), "rbd without cluster": fake.RBD(), "unknown": fake.Raw("storpool", nil),
	} {
		s := newStage(t, fake.WithConnection(connection))
		got := s.provision(t.Context())
		if got.code != 64 || got.message == "" {
			t.Errorf("%s: ended with %d: %s", kind, got.code, got.message)
		}
		s.wantNothing()
		if s.cluster.Volume(name) != nil {
			t.Errorf("%s: there is a volume", kind)
		}
	}
}

// The other kinds of volumes, and initiator modes.
func TestKinds(t *testing.T) {
	t.Parallel()
	ceph := map[string]string{"cephClusterID": "c", "cephSecretName": "s", "cephSecretNamespace": "ceph-csi"}
	for _, c := range []struct {
		name       string
		connection fake.Connection
		parameters map[string]string
		properties map[string]string
		connectors int
		check      func(corev1.PersistentVolumeSource) bool
	}{
		{"fc", fake.FibreChannel(), nil, map[string]string{"wwpns": "10000090fa534185", "wwnns": "0x20000090FA534185"}, 1,
			func(s corev1.PersistentVolumeSource) bool { return s.FC != nil && len(s.FC.TargetWWNs) == 2 }},
		{"rbd", fake.RBD(), ceph, nil, 1, func(s corev1.PersistentVolumeSource) bool { return s.CSI != nil && s.CSI.Driver == "rbd.csi.ceph.com" }},
		{"nvme", fake.NVMeOF2(), nil, nil, 1, func(s corev1.PersistentVolumeSource) bool { return s.CSI != nil && s.CSI.Driver == "csi.nvmf.com" }},
		{"fixed", fake.ISCSIShared("iqn.1992-08.com.netapp:sn.1"), map[string]string{"initiatorMode": "fixed", "initiator": "iqn.2026-01.com.example:c1"}, nil, 1,
			func(s corev1.PersistentVolumeSource) bool {
				return *s.ISCSI.InitiatorName == "iqn.2026-01.com.example:c1"
			}},
		{"node", fake.ISCSIShared("iqn.1992-08.com.netapp:sn.1"), map[string]string{"initiatorMode": "node"},
			map[string]string{"initiators": "node-1=iqn.1994-05.com.redhat:node-1, node-2=iqn.1994-05.com.redhat:node-2"}, 2,
			func(s corev1.PersistentVolumeSource) bool { return s.ISCSI.InitiatorName == nil }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, fake.WithConnection(c.connection)).with(c.parameters)
			s.properties = c.properties
			s.provision(t.Context()).want(t, 0, "")
			if source := s.cluster.Volume(name).Spec.PersistentVolumeSource; !c.check(source) {
				t.Errorf("source %s", asJSON(t, source))
			}
			if v := s.cinder.Volume(name); len(v.Connectors) != c.connectors || v.Status != "in-use" {
				t.Errorf("%d connectors, %s", len(v.Connectors), v.Status)
			}
			s.delete(t.Context()).want(t, 0, "")
			s.wantNothing()
		})
	}
	s := newStage(t).with(map[string]string{"initiatorMode": "node"})
	s.provision(t.Context()).want(t, 64, "parameter initiatorMode is node, but property initiators is missing; list the nodes' iSCSI names in it")
}

// Zones of the class's topology: one of them, the same each time, and the volume says so.
func TestTopology(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithZones("west", "east"))
	allow := func(zones ...string) {
		s.change = func(r *sdk.Request) {
			r.AllowedTopologies, r.SelectedNode = []map[string][]string{{"topology.kubernetes.io/zone": zones}}, "node-a"
		}
	}
	node := func(zone string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{"topology.kubernetes.io/zone": zone}}}
	}
	s.cluster.SetNodes(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, node("north"))
	allow("east", "west")
	s.provision(t.Context()).want(t, 64, `the pod of the claim is to run on node node-a with label topology.kubernetes.io/zone="north", but allowedTopologies has only east, west; correct one of them`)
	s.cluster.SetNodes(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}}, node("east"))
	s.provision(t.Context()).want(t, 0, "")
	term := s.cluster.Volume(name).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if s.cinder.Volume(name).Zone != "east" || term.Key != "topology.kubernetes.io/zone" || strings.Join(term.Values, "") != "east" {
		t.Errorf("zone %s, affinity %+v", s.cinder.Volume(name).Zone, term)
	}
	// An earlier run made the volume in the zone of a node that is gone since. It stays where it is.
	s.cluster.RemoveVolume(name)
	s.cluster.SetNodes(node("west"))
	s.provision(t.Context()).want(t, 0, "")
	if term := s.cluster.Volume(name).Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]; strings.Join(term.Values, "") != "east" {
		t.Errorf("the volume is in zone %s, and its affinity is %+v", s.cinder.Volume(name).Zone, term)
	}
	s.cluster.RemoveVolume(name)
	allow("west")
	s.provision(t.Context()).want(t, 1, `cinder volume `+s.cinder.Volume(name).ID+` is in availability zone "east", but allowedTopologies has only west; correct cinder's zones or the class`)
	s.undo(t.Context()).want(t, 0, "")
	allow("east")
	s.with(map[string]string{"availability": "west"}).provision(t.Context()).
		want(t, 64, "parameter availability is west, but allowedTopologies has only east; correct one of them")
}

// Metadata and scheduler hints of the class reach Cinder.
func TestClassParametersReachCinder(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithType(fake.Type{Name: "fast"}), fake.WithZones("west")).with(map[string]string{
		"type": "fast", "availability": "west", "metadata": "team=a,tier=gold", "fsType": "xfs",
		"differentHost": "dae46dbd-d712-48fe-af72-de0872d24140", "schedulerQuery": `[">=", "$free_capacity_gb", 100]`,
	})
	s.provision(t.Context()).want(t, 0, "")
	body := s.cinder.Calls().Of("POST /volumes")[0].Body
	for _, part := range []string{`"volume_type":"fast"`, `"availability_zone":"west"`, `"team":"a"`, `"tier":"gold"`,
		`"different_host":["dae46dbd-d712-48fe-af72-de0872d24140"]`, `$free_capacity_gb`} {
		if !strings.Contains(body, part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	if got := s.cluster.Volume(name).Spec.ISCSI.FSType; got != "xfs" {
		t.Errorf("fsType %s", got)
	}
}

// Quota errors are in words of Cinder.
func TestQuotaInCindersWords(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithQuota(fake.Quota{Volumes: 10, Gigabytes: 2}))
	s.provision(t.Context()).want(t, 1, "create "+name+": VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 10G, quota is 2G and 0G has been consumed. (HTTP 413)")
	s.wantNothing()
}

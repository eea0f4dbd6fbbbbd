package main

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// ourMetadata marks a volume as made by an earlier run.
var ourMetadata = map[string]string{"flex-provisioner.io/claim-uid": name[4:]}

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

// The other kinds of volumes.
func TestKinds(t *testing.T) {
	t.Parallel()
	ceph := map[string]string{"cephClusterID": "c", "cephSecretName": "s", "cephSecretNamespace": "ceph-csi"}
	for _, c := range []struct {
		name       string
		connection fake.Connection
		parameters map[string]string
		properties map[string]string
		check      func(corev1.PersistentVolumeSource) bool
	}{
		{"fc", fake.FibreChannel(), nil, map[string]string{"wwpns": "10000090fa534185", "wwnns": "0x20000090FA534185"},
			func(s corev1.PersistentVolumeSource) bool { return s.FC != nil && len(s.FC.TargetWWNs) == 2 }},
		{"rbd", fake.RBD(), ceph, nil, func(s corev1.PersistentVolumeSource) bool { return s.CSI != nil && s.CSI.Driver == "rbd.csi.ceph.com" }},
		{"nvme", fake.NVMeOF2(), nil, nil, func(s corev1.PersistentVolumeSource) bool { return s.CSI != nil && s.CSI.Driver == "csi.nvmf.com" }},
		{"xfs", fake.ISCSI(), map[string]string{"fsType": "xfs"}, nil, func(s corev1.PersistentVolumeSource) bool { return s.ISCSI != nil && s.ISCSI.FSType == "xfs" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, fake.WithConnection(c.connection)).with(c.parameters)
			s.properties = c.properties
			s.provision(t.Context()).want(t, 0, "")
			if source := s.cluster.Volume(name).Spec.PersistentVolumeSource; !c.check(source) {
				t.Errorf("source %s", asJSON(t, source))
			}
			if v := s.cinder.Volume(name); len(v.Connectors) != 1 || v.Status != "in-use" {
				t.Errorf("%d connectors, %s", len(v.Connectors), v.Status)
			}
			s.delete(t.Context()).want(t, 0, "")
			s.wantNothing()
		})
	}
}

// Quota errors are in words of Cinder.
func TestQuotaInCindersWords(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithQuota(fake.Quota{Volumes: 10, Gigabytes: 2}))
	s.provision(t.Context()).want(t, 1, "create "+name+": VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested 10G, quota is 2G and 0G has been consumed. (HTTP 413)")
	s.wantNothing()
}

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/apiserver"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/sdk/sdktest"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// Each test here is a bug of the standalone-cinder provisioner that this one succeeds.

// 1: a random name made a second volume after each crash.
func TestAncestorSecondVolume(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cinder.Fault(fake.On("POST /volumes").AfterEffect().Close())
	s.provision(t.Context()).want(t, 1, "create "+name+": no answer from cinder: …")
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()
	if n := s.cinder.Calls().Count("POST /volumes"); n != 1 {
		t.Errorf("%d volumes were asked for", n)
	}
}

// 2: a wait that never saw "error", and crashed where a look failed.
func TestAncestorWaitsOutErrors(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cinder.FailCreate("")
	s.cinder.Fault(fake.On("GET /volumes/detail").Nth(2).HTML(502))
	start := time.Now()
	got := s.provision(t.Context())
	got.want(t, 1, "cinder volume "+s.cinder.Volume(name).ID+" is error: schedule allocate volume:Could not find any available weighted backend.")
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %s to see the error", took)
	}
	// The next attempt removes what failed and begins anew.
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()
}

// 3: the Secret of a failed provision stayed, and then every retry failed on it.
func TestAncestorSecretInTheWay(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.cluster.SetFault(func(_ int, call string) apiserver.Fault {
		return apiserver.Fault{Code: map[string]int{"POST persistentvolumes": 403}[call]}
	})
	s.provision(t.Context()).want(t, 1, "create persistentvolume "+name+": …")
	s.cluster.SetFault(nil)
	if len(s.cluster.Secrets()) != 1 {
		t.Fatal("the failed provision made no secret, so this tests nothing")
	}
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()

	// Where the array has given other credentials since, the last ones count.
	old := s.cluster.Secrets()[name]
	old.Data["node.session.auth.password"] = []byte("the one before")
	s.cluster.AddSecret(*old)
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()

	// A foreign one of that name is left alone.
	s.cluster.AddSecret(corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.delete(t.Context()).want(t, 1, "delete secret flex-provisioners/"+name+": secrets \""+name+"\" is forbidden: the Secret is not one of this claim")
	if len(s.cluster.Secrets()) != 1 {
		t.Error("it was removed")
	}
}

// 4: the claim was written to, and a claim that had gone meanwhile crashed the process with the volume attached. This one
// may not even read claims: testCluster forbids it.
func TestAncestorWritesToClaims(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	for _, call := range s.cluster.Calls() {
		if strings.Contains(call, "persistentvolumeclaims") {
			t.Errorf("call %s", call)
		}
	}
}

// 5: a volume that was removed by hand was never deleted in Kubernetes.
func TestAncestorNeedsTheVolumeToDeleteIt(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	s.cinder.SetStatus(name, "available")
	id := s.cinder.Volume(name).ID
	for _, op := range []string{"os-terminate_connection", "os-detach", "DELETE /volumes/{id}"} {
		// Somebody removes it between two calls.
		s.cinder.Fault(fake.On(op).Refuse(404, "Volume "+id+" could not be found."))
	}
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
	s.delete(t.Context()).want(t, 0, "")
}

// 6: nobody saw "error_deleting", and snapshots were an endless loop.
func TestAncestorForgetsErrorDeleting(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	s.cinder.FailDelete()
	got := s.delete(t.Context())
	got.want(t, 1, "cinder volume "+s.cinder.Volume(name).ID+" is error_deleting…")
	if len(s.cluster.Secrets()) != 1 {
		t.Error("the secret was removed before the volume")
	}
}

// 7: the volume claimed to have the size that was asked for.
func TestAncestorStatesAnotherSize(t *testing.T) {
	t.Parallel()
	s := newStage(t).asking(func(r *sdk.Request) { r.SizeBytes = 1<<30 + 1 })
	s.provision(t.Context()).want(t, 0, "")
	capacity := s.cluster.Volume(name).Spec.Capacity[corev1.ResourceStorage]
	if got := s.cinder.Volume(name).Size; got != 2 || capacity.String() != "2Gi" {
		t.Errorf("cinder made %d GiB, and the volume says %s", got, capacity.String())
	}
}

// 8: "nova" was the default zone, unknown keys and "smartclone: false" had effects of their own.
func TestAncestorParameters(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithZones("west", "east"))
	s.provision(t.Context()).want(t, 0, "")
	if body := s.cinder.Calls().Of("POST /volumes")[0].Body; strings.Contains(body, "availability_zone") {
		t.Errorf("a zone was asked for: %s", body)
	}
	s.with(map[string]string{"smartclone": "no", "color": "red"}).provision(t.Context()).want(t, 64,
		`[parameters[smartclone]: Unsupported value: "no": supported values: "true", "false", parameters[color]: Forbidden: is not known; known are type, …`)
}

// 9: one initiator name for everybody.
func TestAncestorSharesTheInitiator(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	connector := s.cinder.Volume(name).Connectors[0]
	if connector["initiator"] != "iqn.2026-01.io.flex-provisioner:"+name || connector["host"] != "k8s-8b6e7a3e0d9f4a539d" {
		t.Errorf("connector %v", connector)
	}
	if host := s.cinder.Volume(name).Attachments[0].Host; host != "k8s-8b6e7a3e0d9f4a539d" {
		t.Errorf("attached to %q", host)
	}
}

// 10: no multipath.
func TestAncestorHasOnePath(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithConnection(fake.ISCSIMultipath("10.0.0.1:3260", "10.0.0.2:3260"))).with(map[string]string{"multipath": "true"})
	s.provision(t.Context()).want(t, 0, "")
	if source := s.cluster.Volume(name).Spec.ISCSI; source.TargetPortal != "10.0.0.1:3260" || len(source.Portals) != 1 || source.Portals[0] != "10.0.0.2:3260" {
		t.Errorf("portals %s and %v", source.TargetPortal, source.Portals)
	}
}

// 11: passwords in the log. TestMain looks for them in all output; this makes one show up in an answer.
func TestAncestorLogsPasswords(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithKeystone())
	s.useKeystone()
	secret := s.cinder.Identity().Password
	s.cinder.Fault(fake.On("POST /v3/auth/tokens").Refuse(400, "Invalid input for field 'identity/password/user/password': "+secret+" is too short."))
	s.provision(t.Context()).want(t, 64, "log in: Invalid input for field 'identity/password/user/password': *** is too short. (HTTP 400)")
}

// 12: anybody could clone anybody's volume, by naming it on an object of his own.
func TestAncestorClonesForEverybody(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	got := s.clone("0c7f", map[string]string{"smartclone": "true"}, contract.Source{Namespace: "team-b", Name: "data", VolumeName: name}, 10<<30)
	got.want(t, 64, "clone of claim team-b/data: only claims of the same namespace can be cloned, and this one is in team-a")
}

// 13: a claim without a class name crashed it. The class is a plain word of the request here.
func TestAncestorNeedsAClassName(t *testing.T) {
	t.Parallel()
	newStage(t).asking(func(r *sdk.Request) { r.StorageClass = "" }).provision(t.Context()).want(t, 0, "")
}

// 14: the shipped rights did not suffice. testCluster grants what rbac.yaml grants, and TestRBAC compares the two.

// 15: every access mode was accepted.
func TestAncestorAcceptsAllModes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ access, mode, err string }{
		{"ReadWriteMany", "Filesystem", "access mode ReadWriteMany: two nodes would destroy the file system; ask for volumeMode Block, or for ReadWriteOnce"},
		{"ReadWriteTape", "Filesystem", "access mode ReadWriteTape is not supported; ask for ReadWriteOnce, ReadWriteOncePod, ReadOnlyMany, or ReadWriteMany with volumeMode Block"},
		{"ReadWriteOnce", "Tape", "volumeMode Tape is not supported; ask for Filesystem or Block"},
	} {
		s := newStage(t).asking(func(r *sdk.Request) { r.AccessModes, r.VolumeMode = []string{c.access}, c.mode })
		s.provision(t.Context()).want(t, 64, c.err)
		if calls := s.cinder.Calls(); len(calls) > 0 {
			t.Errorf("cinder was asked:\n%s", calls)
		}
	}
	for _, access := range []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadOnlyMany} {
		s := newStage(t).asking(func(r *sdk.Request) { r.AccessModes = []string{string(access)} })
		s.provision(t.Context()).want(t, 0, "")
		if got := s.cluster.Volume(name).Spec.AccessModes; len(got) != 1 || got[0] != access {
			t.Errorf("asked for %s, got a volume of %v", access, got)
		}
	}
	shared := func(r *sdk.Request) { r.AccessModes, r.VolumeMode = []string{"ReadWriteMany"}, "Block" }
	s := newStage(t, fake.WithMultiattachType("shared")).asking(shared)
	s.provision(t.Context()).want(t, 64, "access mode ReadWriteMany: volume type that is cinder's default does not say multiattach=\"<is> True\"; use a class whose type does, or ask for ReadWriteOnce")
	s.with(map[string]string{"type": "shared"}).provision(t.Context()).want(t, 0, "")
	s.wantOne()
	if source := s.cluster.Volume(name).Spec.ISCSI; source.FSType != "" {
		t.Errorf("a raw device has file system %q", source.FSType)
	}
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
}

// 16: nobody looked whether a node still uses the volume.
func TestAncestorDeletesVolumesInUse(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	volume := corev1.UniqueVolumeName("kubernetes.io/iscsi/127.0.0.1:3260:iqn.2010-10.org.openstack:volume-" + s.cinder.Volume(name).ID + ":1")
	for i := range 150 { // more than one page
		s.cluster.AddNode("node-" + string(rune('a'+i%26)))
	}
	s.cluster.AddNode("node-using", volume)
	s.cinder.ForgetCalls()
	s.delete(t.Context()).want(t, 75, "volume "+name+" is still in use on node node-using")
	if calls := s.cinder.Calls(); len(calls) > 0 {
		t.Errorf("cinder was asked:\n%s", calls)
	}
	s.cluster.SetNodes(corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-attached"}, Status: corev1.NodeStatus{
		VolumesAttached: []corev1.AttachedVolume{{Name: volume}}}})
	for what, run := range map[string]func(context.Context) result{"delete": s.delete, "undo": s.undo} {
		t.Log(what)
		run(t.Context()).want(t, 75, "volume "+name+" is still in use on node node-attached")
	}
	s.wantOne()
	s.cluster.SetNodes()
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
}

// clone provisions a clone for another claim.
func (s *stage) clone(uid string, parameters map[string]string, source contract.Source, size int64) result {
	s.t.Helper()
	request := s.request(contract.Provision)
	request.VolumeName, request.Claim.UID, request.SizeBytes = "pvc-"+uid, uid, size
	request.Parameters, request.Source = parameters, &source
	return s.run(context.Background(), request, sdktest.Skeleton(request))
}

// A volume with snapshots stays, in Cinder's words.
func TestDeleteWithSnapshots(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	v := s.cinder.Volume(name)
	s.cinder.AddSnapshot(name)
	s.delete(t.Context()).want(t, 1, "delete "+v.ID+": Invalid volume: Volume status must be available or error…")
	if got := s.cinder.State(); len(got.Volumes) != 1 {
		t.Errorf("there is\n%s", got)
	}
}

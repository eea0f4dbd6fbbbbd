package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// A fast Cinder needs no second look.
func TestFewestCalls(t *testing.T) {
	t.Parallel()
	s := newStage(t, fake.WithPace(fake.Reads(0)), fake.WithKeystone())
	s.useKeystone()
	s.provision(t.Context()).want(t, 0, "")
	s.wantOne()
	if calls := s.cinder.Calls(); calls.Count("*") != 6 || len(calls)-calls.Count("*") != 1 {
		t.Errorf("a provision made these calls, not 6 and one to keystone:\n%s", calls)
	}
	s.cinder.ForgetCalls()
	s.undo(t.Context()).want(t, 0, "")
	s.wantNothing()
	if calls := s.cinder.Calls(); calls.Count("*") != 6 || len(calls)-calls.Count("*") != 1 {
		t.Errorf("an undo made these calls, not 6 and one to keystone:\n%s", calls)
	}
}

func (s *stage) useKeystone() {
	who := s.cinder.Identity()
	s.config = map[string]string{"cloud.conf": "[Global]\nauth-url=" + s.cinder.AuthURL() + "\nusername=" + who.User + "\npassword=" + who.Password +
		"\ntenant-name=" + who.Project + "\ndomain-name=" + who.Domain + "\n"}
}

func TestVolumeAndSecret(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.provision(t.Context()).want(t, 0, "")
	made, v := s.cluster.Volume(name), s.cinder.Volume(name)
	source := made.Spec.ISCSI
	want := corev1.ISCSIPersistentVolumeSource{
		TargetPortal: "127.0.0.1:3260", IQN: "iqn.2010-10.org.openstack:volume-" + v.ID, Lun: 1, FSType: "ext4", SessionCHAPAuth: true,
		SecretRef:     &corev1.SecretReference{Name: name, Namespace: "flex-provisioners"},
		InitiatorName: new("iqn.2026-01.io.flex-provisioner:" + name),
	}
	if got, wanted := asJSON(t, source), asJSON(t, want); got != wanted {
		t.Errorf("source\n%s\nwant\n%s", got, wanted)
	}
	secret := s.cluster.Secrets()[name]
	if secret.Type != "kubernetes.io/iscsi-chap" || len(secret.Data) != 2 || string(secret.Data["node.session.auth.username"]) != v.CHAPUser {
		t.Errorf("secret of type %s with %d keys", secret.Type, len(secret.Data))
	}
	if v.Metadata["flex-provisioner.io/claim"] != "team-a/data" || v.Metadata["flex-provisioner.io/cluster"] != "kubernetes" {
		t.Errorf("metadata %v", v.Metadata)
	}
	if made.Annotations["cinder.openstack.org/volume-id"] != v.ID || made.Annotations["cinder.openstack.org/project-id"] != project {
		t.Errorf("annotations %v", made.Annotations)
	}
}

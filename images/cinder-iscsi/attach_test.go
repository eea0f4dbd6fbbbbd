package main

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cinder/fake"
)

// attachable is a stage for a raw device that several nodes attach.
func attachable(t testing.TB) *stage {
	s := newStage(t, fake.WithPace(0), fake.WithType(fake.Type{Name: "multi", ExtraSpecs: map[string]string{"multiattach": "<is> True"}}))
	s.with(map[string]string{"initiatorMode": "attach", "type": "multi"})
	return s.asking(func(r *sdk.Request) { r.AccessModes, r.VolumeMode = []string{"ReadWriteMany"}, "Block" })
}

// wantNodes checks which nodes have the volume.
func (s *stage) wantNodes(nodes ...string) {
	s.t.Helper()
	var got []string
	for _, a := range s.cinder.Volume(name).Attachments {
		got = append(got, a.Status+" "+a.Host)
	}
	slices.Sort(got)
	for i, node := range nodes {
		if len(got) != len(nodes) || got[i] != "attached "+node {
			s.t.Fatalf("attachments %q, want %q", got, nodes)
		}
		if s.cluster.Secrets()[name].Data[node+".password"] == nil {
			s.t.Errorf("the secret has no password of %s", node)
		}
	}
	if keys := len(s.cluster.Secrets()[name].Data); keys != 2*len(nodes) || len(got) != len(nodes) {
		s.t.Errorf("attachments %q, and %d keys in the secret", got, keys)
	}
}

// The life of a volume that nodes attach. The driver is that of the dispatcher's name, which the skeleton has.
func TestAttachedVolume(t *testing.T) {
	t.Parallel()
	s := attachable(t)
	s.provision(t.Context()).want(t, 0, "")
	source := s.cluster.Volume(name).Spec.CSI
	if source == nil || source.Driver != "dispatcher.flex-provisioner.io" || source.NodeStageSecretRef.Namespace != contract.ProvisionersNamespace {
		t.Fatalf("source %+v", source)
	}
	for _, node := range []string{"node-a", "node-b"} {
		published, got := s.onNode(t.Context(), contract.Attach, node)
		got.want(t, 0, "")
		if len(published) != 1 || !strings.HasSuffix(published["paths"], s.cinder.Volume(name).ID+"/1") {
			t.Errorf("published %v", published)
		}
	}
	s.wantNodes("node-a", "node-b")
	_, got := s.onNode(t.Context(), contract.Detach, "node-a")
	got.want(t, 0, "")
	s.wantNodes("node-b")
	_, got = s.onNode(t.Context(), contract.Detach, "node-b")
	got.want(t, 0, "")
	s.delete(t.Context()).want(t, 0, "")
	s.wantNothing()
}

// Runs for two nodes side by side, and two for one node, of which one was thought to be dead, end with an attachment for each
// node, and with all credentials in the Secret.
func TestAttachedSideBySide(t *testing.T) {
	t.Parallel()
	for range 5 {
		s := attachable(t)
		s.provision(t.Context()).want(t, 0, "")
		done := make(chan result)
		nodes := []string{"node-a", "node-b", "node-a"}
		for _, node := range nodes {
			go func() {
				_, got := s.onNode(t.Context(), contract.Attach, node)
				done <- got
			}()
		}
		for range nodes {
			<-done
		}
		for _, node := range nodes[:2] {
			_, got := s.onNode(t.Context(), contract.Attach, node)
			got.want(t, 0, "")
		}
		s.wantNodes("node-a", "node-b")
		for _, node := range nodes[:2] {
			go func() {
				_, got := s.onNode(context.WithoutCancel(t.Context()), contract.Detach, node)
				done <- got
			}()
		}
		(<-done).want(t, 0, "")
		(<-done).want(t, 0, "")
		if left := s.cinder.Volume(name); left.Status != "available" || len(left.Attachments) != 0 {
			t.Errorf("left: %+v", left)
		}
	}
}

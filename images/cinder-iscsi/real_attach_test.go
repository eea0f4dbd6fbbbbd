//go:build cinder

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flex-provisioner/flex-provisioner/sdk"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// realAttachable is a stage for a raw device that several nodes attach, of a claim with a UID of its own.
func realAttachable(t testing.TB, config map[string]string) (s *stage, uid string) {
	uid = "a77ac4ed-0000-4000-8000-" + fmt.Sprintf("%012x", time.Now().UnixNano()&0xffffffffffff)
	s = realStage(t, config).with(map[string]string{"initiatorMode": "attach", "type": "multiattach"})
	s.asking(func(r *sdk.Request) {
		r.Claim.UID, r.VolumeName, r.SizeBytes, r.TimeoutSeconds = uid, "pvc-"+uid, 1<<30, 90
		r.AccessModes, r.VolumeMode = []string{"ReadWriteMany"}, "Block"
		if r.Operation == contract.Expand {
			r.CurrentSizeBytes, r.SizeBytes = 1<<30, 2<<30
		}
	})
	return s, uid
}

// wantReal checks the state of the volume, and which nodes have it.
func (s *stage) wantReal(uid, status string, nodes ...string) {
	s.t.Helper()
	v := s.realVolume(uid)
	if v == nil || v.Status != status {
		s.t.Fatalf("in cinder there is %+v, want it %s", v, status)
	}
	var got []string
	for _, a := range v.Attachments {
		got = append(got, strings.TrimPrefix(a.Device, "/kubernetes/pvc-"+uid+"/"))
	}
	slices.Sort(got)
	records, err := s.client(s.t).Records(s.t.Context(), v.ID)
	if err != nil || !slices.Equal(got, nodes) || len(records) != len(nodes) {
		s.t.Errorf("attached to %q, and %d records, %v; want %q", got, len(records), err, nodes)
	}
	data := s.cluster.Secrets()["pvc-"+uid].Data
	for _, node := range nodes {
		if len(data[node+".password"]) < 12 || len(data[node+".username"]) == 0 {
			s.t.Errorf("the secret has no credentials of %s", node)
		}
	}
	if len(data) != 2*len(nodes) {
		s.t.Errorf("the secret has %d keys for %d nodes", len(data), len(nodes))
	}
}

// As TestAttachedVolume, of which this is the original.
func TestRealCinderAttach(t *testing.T) {
	for how, config := range credentials(t) {
		t.Run(how, func(t *testing.T) {
			s, uid := realAttachable(t, config)
			s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
			for _, node := range []string{"node-a", "node-b", "node-a"} {
				published, got := s.onNode(t.Context(), contract.Attach, node)
				got.want(t, 0, "")
				target := "/iqn.2010-10.org.openstack:volume-" + s.realVolume(uid).ID + "/1"
				if len(published) != 1 || !strings.HasSuffix(published["paths"], target) {
					t.Errorf("published %v", published)
				}
			}
			s.wantReal(uid, "in-use", "node-a", "node-b")
			s.realRun(t.Context(), contract.Expand, uid).want(t, 0, "")
			if v := s.realVolume(uid); v.Size != 2 || v.Status != "in-use" {
				t.Errorf("after the expansion: %+v", v)
			}
			_, got := s.onNode(t.Context(), contract.Detach, "node-a")
			got.want(t, 0, "")
			s.wantReal(uid, "in-use", "node-b")
			s.realRun(t.Context(), contract.Delete, uid).want(t, 0, "")
			if v := s.realVolume(uid); v != nil || len(s.cluster.Secrets()) != 0 {
				t.Errorf("left in cinder: %+v; %d secrets", v, len(s.cluster.Secrets()))
			}
		})
	}
}

// A volume of one node is not given to the second one. A node that says nothing of iSCSI is refused before Cinder is asked.
func TestRealCinderElsewhere(t *testing.T) {
	config, noauth := credentials(t)["noauth"]
	if !noauth {
		t.Skip("the calls are the same with Keystone")
	}
	s, uid := realAttachable(t, config)
	s.parameters["type"] = "__DEFAULT__"
	modes := s.change
	s.change = func(r *sdk.Request) { modes(r); r.AccessModes = []string{"ReadWriteOnce"} }
	s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
	_, got := s.onNode(t.Context(), contract.Attach, "node-a")
	got.want(t, 0, "")
	_, got = s.onNode(t.Context(), contract.Attach, "node-b")
	got.want(t, 75, "cinder volume "+s.realVolume(uid).ID+" is still attached to node node-a, and its type allows one node at a time")
	_, got = s.onNode(t.Context(), contract.Detach, "node-a")
	got.want(t, 0, "")
	_, got = s.onNode(t.Context(), contract.Attach, "node-b")
	got.want(t, 0, "")
	s.wantReal(uid, "in-use", "node-b")
	s.realRun(t.Context(), contract.Delete, uid).want(t, 0, "")
}

// Whatever call to the real Cinder an attach or a detach dies at, or gets no answer to, the next one ends with one attachment
// of the node or none, and leaves the other node its own.
func TestRealCinderAttachKilled(t *testing.T) {
	config, noauth := credentials(t)["noauth"]
	if !noauth {
		t.Skip("the calls are the same with Keystone, and its catalog names Cinder's own address")
	}
	for _, b := range blows {
		for _, op := range []contract.Operation{contract.Attach, contract.Detach} {
			t.Run(fmt.Sprintf("%s %s", op, b), func(t *testing.T) {
				t.Parallel()
				w := newWire(t, environment(t)["CINDER_ENDPOINT"])
				through := map[string]string{"cloud.conf": strings.ReplaceAll(config["cloud.conf"], environment(t)["CINDER_ENDPOINT"], w.url)}
				calls := 0
				for hit := true; hit; calls++ {
					s, uid := realAttachable(t, through)
					s.realRun(t.Context(), contract.Provision, uid).want(t, 0, "")
					attached := []string{"node-b", "node-a"}
					if op == contract.Attach {
						attached = attached[:1]
					}
					for _, node := range attached {
						_, got := s.onNode(t.Context(), contract.Attach, node)
						got.want(t, 0, "")
					}
					hit = w.struck(t.Context(), b, calls+1, func(ctx context.Context) { s.onNode(ctx, op, "node-a") })
					_, got := s.onNode(t.Context(), op, "node-a")
					got.want(t, 0, "")
					if op == contract.Attach {
						s.wantReal(uid, "in-use", "node-a", "node-b")
					} else {
						s.wantReal(uid, "in-use", "node-b")
					}
					s.realRun(t.Context(), contract.Delete, uid).want(t, 0, "")
				}
				t.Logf("struck at each of %d calls", calls-1)
			})
		}
	}
}

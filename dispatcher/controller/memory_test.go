package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/dispatcher/snapshot"
)

// A claim that the cache does not show is known by what its newest pod was asked for.
func TestClaimRef(t *testing.T) {
	pod := dispatchertest.Pod("prov-0 failed", dispatchertest.Noon, dispatchertest.Noon)
	pod.Annotations[contract.AnnRequest] = `{"claim":{"namespace":"team-a","name":"data","uid":"` + dispatchertest.UID + `"}}`
	other := pod.DeepCopy()
	other.Annotations[contract.AnnRequest] = `{"claim":{"namespace":"team-b","name":"data","uid":"another"}}`
	cached := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: dispatchertest.UID}}
	for name, c := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		pod   *corev1.Pod
		want  string
	}{
		"in the cache":                {cached, other, "team-a/data"},
		"not in the cache":            {nil, pod, "team-a/data"},
		"a record of another claim's": {nil, other, ""},
		"no pods":                     {nil, nil, ""},
	} {
		s, got := &snapshot.Snapshot{UID: dispatchertest.UID, Claim: c.claim}, ""
		if c.pod != nil {
			s.Add(snapshot.NewAttempt(c.pod, ""))
		}
		if claim := claimRef(s); claim != nil {
			got = claim.Namespace + "/" + claim.Name
			if claim.UID != dispatchertest.UID {
				t.Errorf("%s: it has the UID %s", name, claim.UID)
			}
		}
		if got != c.want {
			t.Errorf("%s: claim %q, want %q", name, got, c.want)
		}
	}
}

// Deletions count for an hour, with a limit and without one.
func TestMemoryExpires(t *testing.T) {
	m := newMemory()
	m.deletionBegan("silver", "1", dispatchertest.Noon)
	m.deletionBegan("silver", "2", dispatchertest.Noon.Add(time.Minute))
	m.deleteVolume("v", dispatchertest.Noon)
	m.expire(dispatchertest.Noon.Add(limitPeriod))
	if len(m.deletions["silver"]) != 1 || len(m.deletedVolumes) != 0 {
		t.Errorf("after an hour there are %v and %v", m.deletions, m.deletedVolumes)
	}
	m.expire(dispatchertest.Noon.Add(limitPeriod + time.Minute))
	if len(m.deletions) != 0 {
		t.Errorf("in the end there are %v", m.deletions)
	}
}

// What is handed over while a claim is looked at is not forgotten with it.
func TestForgetAfterHandOver(t *testing.T) {
	for _, c := range []struct {
		name   string
		before bool // that the snapshot is taken
		want   bool
	}{{"before the snapshot", true, true}, {"after the snapshot", false, false}} {
		m, ended := newMemory(), false
		handOver := func() { m.handOver("1", func(c *claimMemory) { c.released = "v" }, func() {}) }
		if c.before {
			handOver()
		}
		revision := m.handedOver()
		if !c.before {
			handOver()
		}
		got := m.forget("1", revision, func() { ended = true })
		if got != c.want || ended != c.want || (m.claim("1").released == "") != c.want {
			t.Errorf("handed over %s: forgotten %t, ended %t, remembered %+v", c.name, got, ended, m.claim("1"))
		}
	}
}

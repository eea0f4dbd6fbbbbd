package obstacles

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/test/dispatchertest"
	"github.com/flex-provisioner/flex-provisioner/test/observedtest"
)

// TestOld: a volume counts for the limit of deletions once it is more than a day old.
func TestOld(t *testing.T) {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: dispatchertest.Noon.Add(-24 * time.Hour)}}}
	if Old(v, dispatchertest.Noon) || !Old(v, dispatchertest.Noon.Add(time.Second)) {
		t.Error("a day is not the bound")
	}
}

// TestRemovalOfGivenVolume: Kubernetes releases a volume whose claimRef names a claim that is bound elsewhere. It was meant to get the data.
func TestRemovalOfGivenVolume(t *testing.T) {
	for name, c := range map[string]struct {
		uid   types.UID
		proof Proof
		why   string
	}{
		"it exists": {"another", NoProof, "claim team-a/data, which the volume names, exists and is bound to volume other; " +
			"if it is to be removed: kubectl annotate pv pvc-" + dispatchertest.UID + " flex-provisioner.io/allow-delete=true"},
		"another one has its name": {"later", ClaimDeleted, ""},
	} {
		s := observedtest.Scene{Claim: "none", Volume: "stray released"}.Observed()
		s.Other = &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "data", UID: c.uid},
			Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "other"}}
		if proof, _, why := Removal(s); proof != c.proof || why != c.why {
			t.Errorf("%s: %q, %q, want %q, %q", name, proof, why, c.proof, c.why)
		}
	}
}

// TestRemovalOfUnknownOrigin: a volume that may come from a backup stays, unless its class's volumes do so by design.
func TestRemovalOfUnknownOrigin(t *testing.T) {
	const unknown = "the volume has no valid record and no annotation flex-provisioner.io/made-before, so that nobody knows " +
		"whether it was restored from a backup; if it is to be removed: kubectl annotate pv pvc-" + dispatchertest.UID +
		" flex-provisioner.io/allow-delete=true"
	for name, c := range map[string]struct {
		volume     string
		lost       bool
		handedOver bool
		proof      Proof
		why        string
	}{
		"recorded":                       {volume: "fits released", lost: true, proof: ClaimDeleted},
		"not recorded":                   {volume: "fits released unsigned", proof: ClaimDeleted},
		"not recorded, and time lost":    {volume: "fits released unsigned", lost: true, why: unknown},
		"an administrator vouches":       {volume: "fits released unsigned trusted", lost: true, proof: ClaimDeleted},
		"volumes are handed over anyway": {volume: "fits released unsigned", lost: true, handedOver: true, proof: ClaimDeleted},
	} {
		s := observedtest.Scene{Claim: "none", Volume: c.volume}.Observed()
		s.Config.VolumesHandedOver = c.handedOver
		if c.lost {
			delete(s.Volume.Annotations, "flex-provisioner.io/made-before")
		}

		if proof, _, why := Removal(s); proof != c.proof || why != c.why {
			t.Errorf("%s: %q, %q, want %q, %q", name, proof, why, c.proof, c.why)
		}
	}
}

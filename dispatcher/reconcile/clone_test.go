package reconcile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/dispatcher/observed"
	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// What a failed attempt may have made is no clone of another claim: it is removed before the new wish is granted.
func TestCloneOfAnotherAfterAFailure(t *testing.T) {
	f := scene{pods: []string{"prov-3 failed"}}.observed()
	f.Class.Parameters = map[string]string{"smartclone": "true"}
	f.Claim.Annotations[contract.AnnCloneRequest], f.Source = "original", observed.CloneSource{
		Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "original", UID: "original-uid"},
			Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}},
		Volume: &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{UID: "original-uid"},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
	}
	f.Attempts[0].Pod.Annotations[contract.AnnRequest] = `{"properties":{"zone":"west"},"parameters":{"smartclone":"true"}}`
	if got, want := describe(Decide(f)), "tell claim ProvisionerFailed, tell claim ProvisionerUndo, create delete 0 for prov-3, (confirm)"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// The claim is told what its volume is a clone of, by the request that the pod had.
func TestCloneIsAnswered(t *testing.T) {
	f := scene{claim: "bound", volume: "fits bound", pods: []string{"prov-0 done"}}.observed()
	f.Attempts[0].Pod.Annotations[contract.AnnRequest] = `{"source":{"namespace":"team-a","name":"original","volumeName":"pvc-1"}}`
	if got, _ := Find[SetCloneOf](Decide(f)); got.Source != "team-a/original" {
		t.Errorf("clone of %q", got.Source)
	}

	f.Claim.Annotations[contract.AnnCloneOf] = "team-a/original"
	if got, again := Find[SetCloneOf](Decide(f)); again {
		t.Errorf("recorded again: %q", got.Source)
	}
}

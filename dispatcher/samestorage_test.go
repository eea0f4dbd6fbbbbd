package dispatcher

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestSameStorage: an administrator made another volume for the storage of a claim. The claim's end proves no more that
// nobody needs the storage. Once the other volume is gone, the storage is removed.
func TestSameStorage(t *testing.T) {
	inBubble(t, func(p tenants) {
		removals := p.removals()
		defer p.dispatch()()

		p.class("silver.good", nil)
		p.claim("data", "silver.good")
		p.play(10 * time.Second)
		volume := p.onlyVolume()
		if volume.Status.Phase != corev1.VolumeBound {
			t.Fatalf("the volume is %s", volume.Status.Phase)
		}

		kept := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Spec: *volume.Spec.DeepCopy()}
		kept.Spec.ClaimRef, kept.Spec.PersistentVolumeReclaimPolicy = nil, corev1.PersistentVolumeReclaimRetain
		p.create(apiserver.Volumes, kept)
		p.play(time.Second)
		p.remove(apiserver.Claims, "team", "data")
		p.play(10 * time.Second)

		want := "volume kept, which no provisioner pod made, has the same storage; if it is to be removed: kubectl " +
			"annotate pv " + volume.Name + " flex-provisioner.io/allow-delete=true"
		if said := p.said("DeletionHeld"); !slices.ContainsFunc(said, func(s string) bool { return strings.HasSuffix(s, want) }) {
			t.Errorf("told %q, want %q", said, want)
		}

		p.play(time.Hour)
		if got := removals(); len(got) > 0 {
			t.Fatalf("storage is removed by %q", got)
		}

		p.remove(apiserver.Volumes, "", "kept")
		p.play(6 * time.Minute)
		if got := removals(); len(got) != 1 {
			t.Errorf("storage is removed by %q, once the other volume is gone", got)
		}
	})
}

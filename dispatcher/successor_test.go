package dispatcher

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/chaos/apiserver"
)

// TestSuccessor: a claim is deleted, and another one of its name names the volume. It keeps the storage only if its
// author pays for it by the size that it asks for, or if Kubernetes says that it is bound. Otherwise, a tenant would keep
// the storage of any size for a byte of quota.
func TestSuccessor(t *testing.T) {
	for _, c := range []struct {
		name, size string
		phase      corev1.PersistentVolumeClaimPhase
		held       string
	}{
		{name: "asks for a byte", size: "1", phase: corev1.ClaimPending},
		{name: "asks for almost as much", size: "1023Mi", phase: corev1.ClaimPending},
		{name: "asks for as much", size: "1Gi", phase: corev1.ClaimPending,
			held: "claim team/data asks for the volume, but is not the one"},
		{name: "is bound, asking for a byte", size: "1", phase: corev1.ClaimBound,
			held: "claim team/data is bound to the volume"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(p tenants) {
				stop := p.dispatch()
				defer stop()

				p.class("silver.good", nil)
				p.play(5 * time.Second)
				p.claim("data", "silver.good")
				p.play(time.Minute)
				made := p.claimNamed("data")
				volume := made.Spec.VolumeName

				p.remove(apiserver.Claims, "team", "data")
				p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) { o.SetFinalizers(nil) })
				again := &corev1.PersistentVolumeClaim{Spec: *made.Spec.DeepCopy()}
				again.Namespace, again.Name = "team", "data"
				again.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(c.size)}
				p.create(apiserver.Claims, again)
				p.server.Mutate(apiserver.Claims, "team", "data", func(o apiserver.Object) {
					o.(*corev1.PersistentVolumeClaim).Status.Phase = c.phase
				})
				p.play(10 * time.Minute)

				held := p.said("DeletionHeld")
				switch {
				case c.held == "" && (p.volumeNamed(volume) != nil || p.pods(contract.Delete) != 1 || len(held) > 0):
					t.Errorf("the storage was not removed by one pod, but by %d: %q", p.pods(contract.Delete), held)
				case c.held != "" && (len(held) != 1 || !strings.Contains(held[0], c.held) || p.pods(contract.Delete) > 0):
					t.Errorf("held: %q, want %q", held, c.held)
				}
			})
		})
	}
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/contract"
	"github.com/flex-provisioner/flex-provisioner/podspec"
)

// TestTurnsOfNamespaces: one tenant has 500 claims of a class that may run two pods at a time, and both run. The claim that
// another tenant makes after that waits for at most one more of them, and says why it waits. Pods wait at a gate, so that
// the test says when a turn comes; the claims that never have one need no pod.
func TestTurnsOfNamespaces(t *testing.T) {
	s := begin(t)
	class := s.class("few", setting{data: map[string]string{"max-concurrent": "2", "timeout": "10m"}, provision: gate + makeDir + makeVolume})
	var claims []*claim
	for i := range 500 {
		claims = append(claims, class.claim(fmt.Sprintf("claim-%d", i)))
	}
	s.wait(patient, "two pods at the gate", func() string {
		if runs := class.runs(); len(runs) != 2 {
			return fmt.Sprintf("runs: %v", runs)
		}
		return ""
	})
	s.wait(2*patient, "500 claims handed over", func() string {
		return first(claims, func(c *claim) string {
			if now := c.now(); now == nil || now.Annotations["volume.kubernetes.io/storage-provisioner"] == "" {
				return "claim " + c.Name
			}
			return ""
		})
	})
	other := class.claimOf(s.tenant("other"), "data")
	other.told(patient, "ConcurrencyLimitReached", "waiting for other provisioner pods of StorageClass "+class.name+" to end: 2 of at most 2 (max-concurrent) are running or starting; *")
	before := ranFor(claims)
	s.wait(patient, "a pod for the other tenant's claim", func() string {
		if len(shared.ran(contract.Provision, other.UID)) > 0 {
			return ""
		}
		class.openAll()
		return fmt.Sprintf("%d pods ran for the first tenant, %d of them before", ranFor(claims), before)
	})
	if turns := ranFor(claims) - before; turns > 1 {
		t.Errorf("the claim waited for %d pods of another namespace, want 1 at most", turns)
	}
	s.deleteClaims(t.Context()) // those in line go, so that only the few that had a pod are to be made and removed
	s.wait(2*patient, "other tenant's claim bound", func() string { class.openAll(); return other.unbound() })
	s.wait(2*patient, "first tenant's claims gone", func() string { class.openAll(); return first(claims, (*claim).left) })
	if most := shared.mostAtOnce(class.name); most != 2 {
		t.Errorf("%d pods at once, want the 2 of max-concurrent", most)
	}
	other.delete()
	other.gone(patient)
}

// ranFor counts the provision pods that there were for the claims.
func ranFor(claims []*claim) int {
	n := 0
	for _, c := range claims {
		n += len(shared.ran(contract.Provision, c.UID))
	}
	return n
}

// tenant makes one more namespace for claims, which have to be gone when the test ends.
func (s *scope) tenant(suffix string) string {
	s.Helper()
	name, namespaces := s.name+"-"+suffix, shared.admin.CoreV1().Namespaces()
	_, err := namespaces.Create(s.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	s.ok(err)
	s.later(func(ctx context.Context) error { return namespaces.Delete(ctx, name, metav1.DeleteOptions{}) })
	return name
}

// claimOf makes a claim of 64Mi in a namespace.
func (c *class) claimOf(namespace, name string) *claim {
	c.s.Helper()
	created := time.Now()
	made, err := shared.admin.CoreV1().PersistentVolumeClaims(namespace).Create(c.s.Context(), newClaim(namespace, name, c.name, "64Mi"), metav1.CreateOptions{})
	c.s.ok(err)
	return &claim{PersistentVolumeClaim: made, s: c.s, class: c, created: created}
}

// openAll lets all provision pods of the test go on that wait at a gate now.
func (c *class) openAll() {
	c.s.Helper()
	for _, pod := range c.s.pods() {
		if pod.Labels[contract.LabelOperation] == string(contract.Provision) {
			c.open(contract.Provision, podspec.VolumeName(pod.Labels[contract.LabelClaimUID]))
		}
	}
}

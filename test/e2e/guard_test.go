//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const stopReason = "a test of the switch"

// stopDeletes sets the switch that stops all deletions. No other test runs meanwhile.
func (s *scope) stopDeletes() {
	s.Helper()
	configMaps := shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace)
	_, err := configMaps.Create(s.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: contract.StopDeletes}, Data: map[string]string{"reason": stopReason}}, metav1.CreateOptions{})
	s.ok(err)
	s.Cleanup(func() { _ = configMaps.Delete(context.Background(), contract.StopDeletes, metav1.DeleteOptions{}) }) // before the claims are deleted
}

func (s *scope) allowDeletes() {
	s.Helper()
	s.ok(shared.admin.CoreV1().ConfigMaps(contract.ProvisionersNamespace).Delete(s.Context(), contract.StopDeletes, metav1.DeleteOptions{}))
}

// metric is the line of a metric of the leader, without its value.
func (s *scope) metric(line string) string {
	s.Helper()
	text, err := metricsOf(s.Context(), s.leader())
	s.ok(err)
	for l := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(l, line+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestStopDeletes: while the switch is there nothing is removed or undone, across a restart of the dispatcher, what waits
// says why, and claims are served. When it goes, everything goes on.
func TestStopDeletes(t *testing.T) {
	s := begin(t)
	good := s.class("a", setting{})
	bad := s.class("b", setting{provision: makeDir + "exit 1\n"})
	kept, failing := good.claim("kept"), bad.claim("failing")
	kept.bound(soon)
	failing.told(soon, "ProvisionerFailed", "*")
	s.stopDeletes()
	waits := "storage waits to be removed: ConfigMap flex-provisioners/stop-deletes stops all deletions: " + stopReason
	kept.delete()
	failing.delete()
	took := s.told(soon, kept.volume().UID, "DeletionStopped", waits)
	s.wait(soon, "undo put off", func() string {
		for _, p := range failing.livePods() {
			for _, e := range eventsOn(p.UID) {
				if e.Reason == "DeletionStopped" && e.Message == waits {
					return ""
				}
			}
		}
		return "no event on a pod of the claim"
	})
	t.Logf("the volume said why it waits after %.1f s", took.Seconds())
	if got := s.metric("flex_provisioner_deletes_stopped"); got != "1" {
		t.Errorf("flex_provisioner_deletes_stopped is %q", got)
	}
	was := holder()
	s.ok(killed(t.Context(), s.leader()))
	s.newLeader(was)
	good.claim("meanwhile").bound(patient)
	s.wait(soon, "the new leader holds both back", func() string {
		if a, b := s.metric(`flex_provisioner_held{class="`+good.name+`",reason="DeletionStopped"}`), s.metric(`flex_provisioner_held{class="`+bad.name+`",reason="DeletionStopped"}`); a != "1" || b != "1" {
			return fmt.Sprintf("held: %q and %q", a, b)
		}
		return ""
	})
	for _, c := range []*claim{kept, failing} {
		c.ran(contract.Delete, 0)
		if !exists(c.directory()) {
			t.Errorf("the storage of claim %s was removed", c.Name)
		}
	}
	s.allowDeletes()
	kept.gone(patient)
	failing.gone(patient)
	kept.ran(contract.Delete, 1)
	if got := s.metric("flex_provisioner_deletes_stopped"); got != "0" {
		t.Errorf("flex_provisioner_deletes_stopped is %q", got)
	}
}

// lose makes the cluster forget the claim and its volume while the storage stays, and returns the volume as a backup of
// last week would have it.
func (s *scope) lose(c *claim) *corev1.PersistentVolume {
	s.Helper()
	backup := c.volume().DeepCopy()
	s.reclaim(c, corev1.PersistentVolumeReclaimRetain)
	c.delete()
	s.wait(patient, "volume retained", func() string {
		if v := c.volume(); v.Status.Phase != corev1.VolumeReleased {
			return "it is " + string(v.Status.Phase)
		}
		return ""
	})
	s.ok(shared.admin.CoreV1().PersistentVolumes().Delete(s.Context(), backup.Name, metav1.DeleteOptions{}))
	s.wait(patient, "volume forgotten", func() string {
		if c.volume() != nil {
			return "it is there, with finalizers " + strings.Join(c.volume().Finalizers, ", ")
		}
		return ""
	})
	backup.ObjectMeta = metav1.ObjectMeta{Name: backup.Name, Annotations: backup.Annotations, Finalizers: backup.Finalizers}
	backup.Annotations[contract.AnnMadeBefore] = time.Now().Add(-7 * 24 * time.Hour).UTC().Format(time.RFC3339)
	backup.Status = corev1.PersistentVolumeStatus{}
	return backup
}

// TestRestoredVolume follows docs/restore.md: a volume that comes back without its claim keeps its storage, is bound to the
// restored claim, and asks once more when that is deleted.
func TestRestoredVolume(t *testing.T) {
	t.Parallel()
	s := begin(t)
	class := s.class("a", setting{})
	original := class.claim("data")
	original.bound(soon)
	original.consume(shared.admin)
	backup := s.lose(original)

	volumes := shared.admin.CoreV1().PersistentVolumes()
	restored, err := volumes.Create(t.Context(), backup, metav1.CreateOptions{})
	s.ok(err)
	s.told(soon, restored.UID, "DeletionHeld", "storage waits to be removed: the volume was restored from a backup*flex-provisioner.io/allow-delete=true")
	again := class.claim("data", func(pvc *corev1.PersistentVolumeClaim) { pvc.Spec.VolumeName = backup.Name })
	_, err = volumes.Patch(t.Context(), backup.Name, types.JSONPatchType, []byte(`[{"op": "remove", "path": "/spec/claimRef/uid"}]`), metav1.PatchOptions{})
	s.ok(err)
	s.wait(patient, "restored claim bound", func() string {
		if now := again.now(); now == nil || now.Status.Phase != corev1.ClaimBound {
			return "it is not" + showEvents(eventsOn(again.UID))
		}
		return ""
	})
	original.holds()
	again.delete()
	s.wait(patient, "held again", func() string {
		var times int32
		for _, e := range eventsOn(restored.UID) {
			if e.Reason == "DeletionHeld" && strings.Contains(e.Message, "restored from a backup") {
				times += e.Count
			}
		}
		if times > 1 {
			return ""
		}
		return showEvents(eventsOn(restored.UID))
	})
	if !exists(original.directory()) {
		t.Error("its storage was removed")
	}
	_, err = kubectl(t.Context(), "annotate", "pv", backup.Name, contract.AnnAllowDelete+"=true")
	s.ok(err)
	original.gone(patient)
}

func (s *scope) patchVolume(volume, patch string) {
	s.Helper()
	_, err := shared.admin.CoreV1().PersistentVolumes().Patch(s.Context(), volume, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.ok(err)
}

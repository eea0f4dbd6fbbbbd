//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
	"github.com/flex-provisioner/flex-provisioner/test/cluster"
)

// forgets takes its data from etcd, and waits until the API server, which goes on with its caches, shows that.
func (s *scope) forgets() {
	s.Helper()
	s.kill("etcd")
	s.ctl("start", "etcd", "--empty")
	s.wait(patient, "the API server forgets", func() string {
		_, err := shared.admin.CoreV1().Namespaces().Get(s.Context(), contract.ProvisionersNamespace, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("namespace %s: %v", contract.ProvisionersNamespace, err)
		}
		return ""
	})
}

// installedAnew starts what remembers the lost etcd, and installs the project and the test's classes in the empty one.
func (s *scope) installedAnew() {
	s.Helper()
	s.restartAll()
	_, err := kubectl(s.Context(), "apply", "--server-side", "--force-conflicts", "-k", cluster.Installation)
	s.ok(err)
	s.rolledOut()
	s.ok(stamped(s.Context()))
	s.ok(makeExport(s.Context()))
	for _, c := range s.classes {
		c.install()
	}
	s.makeNamespace()
}

// TestEtcdRestored follows docs/restore.md, block by block. A snapshot with the switch in it is made. Volumes are made, removed and saved
// from deletion. Then etcd is lost, and the snapshot restored. Nobody's data goes, whether the cluster knows nothing of it, too little, or
// too much.
func TestEtcdRestored(t *testing.T) {
	s := begin(t)
	backups := s.backups()
	class := s.listable("a")
	gated := s.class("b", setting{provision: makeDir + gate + makeVolume})
	claims := class.used("kept", "removed", "saved")
	kept, removed, saved := claims["kept"], claims["removed"], claims["saved"]
	unfinished, waiting := gated.claim("unfinished"), gated.claim("waiting")
	s.running(contract.Provision, []*claim{unfinished, waiting})
	s.wait(soon, "storage made", waiting.noDirectory)

	save := strings.Split(s.commands("docs/restore.md", "## Back up etcd while deletions are stopped")[0], "\n")
	if len(save) != 3 {
		t.Fatalf("the commands that make a backup are %q, want the switch, the snapshot, and the end of the switch", save)
	}
	backups.follow(save[0])
	saved.delete()
	s.told(soon, saved.volume().UID, "DeletionStopped", "storage waits to be removed: *restore.md")
	backups.follow(save[1])
	s.reclaim(saved, corev1.PersistentVolumeReclaimRetain)
	backups.follow(save[2])

	late := class.used("late")["late"]
	removed.delete()
	removed.gone(patient)
	gated.open(contract.Provision, unfinished.volumeName())
	unfinished.bound(patient)
	unfinished.consume(shared.admin)

	steps := s.commands("docs/restore.md", "## Restore etcd")
	func() {
		defer backups.restored(steps) // whatever comes to pass
		s.etcdLost(class, kept, waiting)
	}()
	if out := backups.follow(steps[2]); !strings.Contains(out, contract.StopDeletes) {
		t.Errorf("the snapshot has no switch: %s", out)
	}
	unfinished.bound(patient)
	unfinished.holds()
	gated.open(contract.Provision, waiting.volumeName())
	waiting.bound(patient)
	names := []string{kept.volumeName(), removed.volumeName(), saved.volumeName(), late.volumeName()}
	forget := fmt.Sprintf("kubectl -n %s delete pvc %s", s.name, removed.Name)
	want := class.orphan(late.volumeName()) + fmt.Sprintf("empty-volume %s: class %s does not have its storage\n    %s\n", removed.volumeName(), class.name, forget)
	if lines, code := s.audit(names...); lines != want || code != 4 {
		t.Errorf("exit code %d, found\n%swant\n%s", code, lines, want)
	}
	remove := s.broughtBack(late)
	s.follow(forget)
	s.wait(patient, "two volumes wait", func() string {
		if held := s.metric(`flex_provisioner_held{class="` + class.name + `",reason="DeletionStopped"}`); held != "2" {
			return "the dispatcher holds " + held
		}
		return ""
	})
	s.follow(steps[3], "NAME", saved.volumeName())
	backups.follow(steps[4])

	removed.gone(patient)
	for _, c := range []*claim{kept, saved, late, unfinished} {
		c.holds()
	}
	if lines, _ := s.audit(names...); lines != "" {
		t.Errorf("found, although all was mended:\n%s", lines)
	}
	remove()
	s.reclaim(saved, corev1.PersistentVolumeReclaimDelete)
	saved.gone(patient)
}

// etcdLost kills etcd, which comes back without its data while everything else goes on. Nobody removes the storage of volumes that the new
// cluster does not know, the audit names it once the class is there again, and new claims are served.
func (s *scope) etcdLost(class *class, known, waiting *claim) {
	s.Helper()
	s.forgets()
	s.installedAnew()
	made := class.used("made-since")["made-since"]
	lines, code := s.audit(known.volumeName(), made.volumeName())
	if want := class.orphan(known.volumeName()); lines != want || code != 4 {
		s.Errorf("exit code %d, found\n%swant\n%s", code, lines, want)
	}
	made.delete()
	made.gone(patient)
	known.holds()
	if lack := waiting.noDirectory(); lack != "" {
		s.Error(lack)
	}
}

// reclaim changes what becomes of the storage of the claim's volume.
func (s *scope) reclaim(c *claim, policy corev1.PersistentVolumeReclaimPolicy) {
	s.Helper()
	s.patchVolume(c.volumeName(), fmt.Sprintf(`{"spec":{"persistentVolumeReclaimPolicy":%q}}`, policy))
}

// broughtBack makes the volume and the claim that the cluster has forgotten by hand, and returns what takes them away
// again, with the storage.
func (s *scope) broughtBack(c *claim) (remove func()) {
	s.Helper()
	volumes, claims := shared.admin.CoreV1().PersistentVolumes(), shared.admin.CoreV1().PersistentVolumeClaims(s.name)
	_, err := volumes.Create(s.Context(), &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: c.volumeName()}, Spec: corev1.PersistentVolumeSpec{
		Capacity: c.Spec.Resources.Requests, AccessModes: c.Spec.AccessModes, StorageClassName: c.class.name,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: nfsServer, Path: c.directory()}},
	}}, metav1.CreateOptions{})
	s.ok(err)
	asks := newClaim(s.name, c.Name, c.class.name, "64Mi")
	asks.Spec.VolumeName = c.volumeName()
	_, err = claims.Create(s.Context(), asks, metav1.CreateOptions{})
	s.ok(err)
	s.wait(patient, "claim brought back", c.unbound)
	return func() {
		s.Helper()
		s.ok(claims.Delete(s.Context(), c.Name, metav1.DeleteOptions{}))
		s.wait(patient, "claim gone", c.present)
		s.ok(volumes.Delete(s.Context(), c.volumeName(), metav1.DeleteOptions{}))
		s.wait(patient, "volume gone", c.left)
		s.ok(os.RemoveAll(c.directory()))
	}
}

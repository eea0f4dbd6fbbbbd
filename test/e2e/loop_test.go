//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

const loopDir = "/var/lib/flex-loop"

// TestLocalSizes has nodes with disks of different sizes: what is promised holds, a claim goes where there is room, a file system grows
// while a pod uses it, and nothing of it notices that flex-node is replaced.
func TestLocalSizes(t *testing.T) {
	installedAfter(t)
	s := begin(t)
	s.needSpareNodes()
	s.mountDisk("node2", loopDir, "xfs", "512M")
	s.mountDisk("node3", loopDir, "xfs", "4G")
	s.flexNode()
	loop := s.spareExample("loop")
	loop.edit(map[string]string{"claim-sizes": "300Mi-"})
	loop.format("xfs")
	size := func(text string) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse(text)
		}
	}

	c := loop.claim("holds", readWriteOnce, size("320Mi"))
	fill := "dd if=/dev/zero of=/data/more bs=1M 2> /dev/null || true; " +
		`mib=$(du -m /data | tail -n 1 | cut -f 1); [ "$mib" -gt %d ] && [ "$mib" -le %d ] && echo full || echo "$mib MiB"`
	s.finished(c.consumerOf(shared.admin, fmt.Sprintf(fill, 200, 320), ownsFiles, onSpare("node3")), "full\n")
	using := c.consumerOf(shared.admin, `until [ "$(df -m /data | tail -n 1 | awk '{print $2}')" -gt 400 ]; do sleep 1; done; echo grown`, ownsFiles, onSpare("node3"))
	s.wait(patient, "pod runs", func() string {
		if pod := get[corev1.Pod](shared.pods, using.Namespace+"/"+using.Name); pod == nil || pod.Status.Phase != corev1.PodRunning {
			return "it does not run"
		}
		return ""
	})
	_, err := kubectl(t.Context(), "rollout", "restart", "-n", "flex-node", "ds/flex-node")
	s.ok(err)
	c.ask("640Mi")
	s.finished(using, "grown\n")
	c.has("640Mi")
	c.delete()
	c.gone(patient)
	if left := s.namesOn("node3", loopDir); left != "" {
		t.Errorf("after the delete node3 has %s", left)
	}

	pinned := loop.claim("pinned", readWriteOnce, size("1Gi"))
	consumer := pinned.consumer(shared.admin, ownsFiles, onSpare("node2"))
	pinned.told(patient, "ProvisionerNotHere", "*"+loopDir+" on node node2 has room for *Mi, and the claim asks for 1024Mi*")
	s.ok(deleteNow(t.Context(), consumer))
	s.finished(pinned.consumer(shared.admin, ownsFiles, onSpare("")), "hello from pinned\n")
	if on := pinned.volume().Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]; on != "node3" {
		t.Errorf("the volume without room on node2 is on %s, want node3", on)
	}
	pinned.delete()
	pinned.gone(patient)
	pinned.ran(contract.Delete, 1)
}

// format makes the class anew with another file system, since its parameters cannot be changed. A root without CAP_SYS_RESOURCE, as in
// many virtual machines that run tests, cannot grow ext4 in use.
func (c *class) format(fsType string) {
	c.s.Helper()
	classes := shared.admin.StorageV1().StorageClasses()
	old, err := classes.Get(c.s.Context(), c.name, metav1.GetOptions{})
	c.s.ok(err)
	c.s.ok(classes.Delete(c.s.Context(), c.name, metav1.DeleteOptions{}))
	anew := old.DeepCopy()
	anew.ObjectMeta = metav1.ObjectMeta{Name: c.name}
	anew.Parameters["csi.storage.k8s.io/fstype"] = fsType
	_, err = classes.Create(c.s.Context(), anew, metav1.CreateOptions{})
	c.s.ok(err)
}

// flexNode installs flex-node, until the test ends.
func (s *scope) flexNode() {
	s.Helper()
	s.later(func(ctx context.Context) error {
		_, err := kubectl(ctx, "delete", "--ignore-not-found", "-k", "deploy/node")
		return err
	})
	_, err := kubectl(s.Context(), "apply", "--server-side", "-k", "deploy/node")
	s.ok(err)
	_, err = kubectl(s.Context(), "rollout", "status", "--timeout=2m", "-n", "flex-node", "ds/flex-node")
	s.ok(err)
}

// mountDisk mounts a file system of the size at a folder of a node, until the test ends.
func (s *scope) mountDisk(node, folder, fsType, size string) {
	s.Helper()
	disk := "/mnt/" + path.Base(folder) + ".disk" // the node has a /mnt of its own
	inside := func(ctx context.Context, script string) error {
		_, err := command(ctx, "test/cluster/enter.sh", "--node", node, "sh", "-euc", script)
		return err
	}
	s.later(func(ctx context.Context) error {
		return inside(ctx, "umount "+folder+"; rm -f "+disk)
	})
	s.ok(inside(s.Context(), "truncate -s "+size+" "+disk+"; mkfs."+fsType+" -q "+disk+"; mkdir -p "+folder+"; mount -o loop "+disk+" "+folder))
}

//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"path"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/flex-provisioner/flex-provisioner/sdk/contract"
)

// TestLocalSizes has nodes with btrfs disks of different sizes: what is promised holds, and a claim goes where there is room.
func TestLocalSizes(t *testing.T) {
	installedAfter(t)
	s := begin(t)
	s.needSpareNodes()
	s.btrfsDisk("node2", "256M")
	s.btrfsDisk("node3", "2G")
	btrfs := s.spareExample("btrfs")

	c := btrfs.claim("holds", readWriteOnce)
	fill := "dd if=/dev/zero of=/data/more bs=1M count=100 conv=fsync 2> /dev/null || true; " +
		`mib=$(du -m /data | tail -n 1 | cut -f 1); [ "$mib" -gt %d ] && [ "$mib" -le %d ] && echo full || echo "$mib MiB"`
	s.finished(c.consumerOf(shared.admin, fmt.Sprintf(fill, 60, 64), onSpare("node3")), "full\n")
	c.ask("96Mi")
	c.told(patient, "ExpansionSucceeded", "pod * expanded volume {volume} to 96Mi; its node finishes it once a pod uses the claim")
	c.marked(corev1.PersistentVolumeClaimNodeResizePending, "96Mi", "FileSystemResizePending: Waiting for user to (re-)start a pod *")
	s.finished(c.consumerOf(shared.admin, fmt.Sprintf(fill, 92, 96), onSpare("node3")), "full\n")
	c.has("96Mi")
	c.delete()
	c.gone(patient)
	if out, err := command(t.Context(), "test/cluster/enter.sh", "--node", "node3", "ls", "/var/lib/flex-btrfs"); err != nil || out != "" {
		t.Errorf("after the delete node3 has %q, error %v", out, err)
	}

	pinned := btrfs.claim("pinned", readWriteOnce, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("1Gi")
	})
	consumer := pinned.consumer(shared.admin, onSpare("node2"))
	pinned.told(patient, "ProvisionerNotHere", "*/var/lib/flex-btrfs on node node2 has room for *Mi, and the claim asks for 1Gi*")
	s.ok(deleteNow(t.Context(), consumer))
	s.finished(pinned.consumer(shared.admin, onSpare("")), "hello from pinned\n")
	if on := pinned.volume().Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0]; on != "node3" {
		t.Errorf("the volume without room on node2 is on %s, want node3", on)
	}
	pinned.delete()
	pinned.gone(patient)
	pinned.ran(contract.Delete, 1)
}

// btrfsDisk mounts a file system of the size at /var/lib/flex-btrfs of a node, until the test ends.
func (s *scope) btrfsDisk(node, size string) {
	s.Helper()
	s.btrfsDiskAt(node, "/var/lib/flex-btrfs", size)
}

func (s *scope) btrfsDiskAt(node, folder, size string) {
	s.Helper()
	disk := "/mnt/" + path.Base(folder) + ".disk" // the node has a /mnt of its own
	inside := func(ctx context.Context, script string) error {
		_, err := command(ctx, "test/cluster/enter.sh", "--node", node, "sh", "-euc", script)
		return err
	}
	s.later(func(ctx context.Context) error {
		return inside(ctx, "umount "+folder+"; rm -f "+disk)
	})
	s.ok(inside(s.Context(), "truncate -s "+size+" "+disk+"; mkfs.btrfs -q "+disk+"; mkdir -p "+folder+"; mount -o loop "+disk+" "+folder))
}

//go:build e2e

package e2e

import (
	"context"
	"os"
	"strings"
	"testing"
)

// links does for the partitions of a disk what udev does on other nodes, and prints nothing.
const links = `mkdir -p /dev/disk/by-partuuid; while :; do
partx --show --noheadings --output NR,UUID "$0" 2>/dev/null | while read -r number uuid; do
	[ ! -b "$0p$number" ] || ln -sfn "$0p$number" "/dev/disk/by-partuuid/$uuid"
done
sleep 0.2
done`

// TestPartitions has an image of a stranger, with nothing of this project in it, that needs root, a capability and a device: granted,
// it works.
func TestPartitions(t *testing.T) {
	t.Parallel()
	s := begin(t)
	const folder = "partitions"
	device := s.partitioned("8d3f2a60-6c1e-4f5b-9b0d-2f6c1f7a9e01")
	s.later(func(ctx context.Context) error { return onNode(ctx, "rm -rf /dev/disk/by-partuuid") })
	s.runsOnNode("sh", "-c", links, device)
	s.later(func(ctx context.Context) error { return onNode(ctx, "rm -rf /var/lib/flex-partitions") })
	s.loadExample(folder)
	s.example(folder, "/dev/disk/by-id/THE-DISK", device, "THE-NODE", "node1")

	c := s.exampleBound(folder)
	if v := c.volume(); v.Spec.Local == nil || v.Spec.Local.Path != "/dev/disk/by-partuuid/"+string(c.UID) {
		s.Errorf("the volume's source is %+v", v.Spec.PersistentVolumeSource)
	}
	s.consumed(folder, "hello from "+folder)
	s.exampleGone(folder)
	s.onNode("! grep " + strings.TrimPrefix(device, "/dev/") + "p /proc/partitions")
}

// partitioned is a block device of 512 MiB of the node, with an empty partition table of the identifier.
func (s *scope) partitioned(id string) (device string) {
	s.Helper()
	file := nfsRoot + "/table-" + s.name
	device = s.loopDevice(file)
	s.later(func(context.Context) error { return os.Remove(file) })
	s.ok(os.Truncate(file, 512<<20))
	for _, step := range [][]string{
		{"losetup", "--set-capacity", device},
		{"test/cluster/packages.sh", "fdisk"},
		{"sh", "-euc", `printf 'label: gpt\nlabel-id: %s\n' "$1" | sfdisk --quiet --no-reread --no-tell-kernel "$0"`, device, id},
	} {
		_, err := command(s.Context(), step...)
		s.ok(err)
	}
	return device
}

# shellcheck shell=bash
# A btrfs file system on each node.
up() {
	local node
	test/cluster/packages.sh btrfs-progs
	for node in $(nodes); do
		on_node "$node" 'grep -q " /var/lib/flex-btrfs " /proc/self/mountinfo || {
			truncate -s 8G /mnt/flex-btrfs.disk; mkfs.btrfs -qf /mnt/flex-btrfs.disk
			mkdir -p /var/lib/flex-btrfs; mount -o loop /mnt/flex-btrfs.disk /var/lib/flex-btrfs; }'
	done
}
down() {
	local node
	for node in $(nodes); do
		on_node "$node" '! grep -q " /var/lib/flex-btrfs " /proc/self/mountinfo || umount /var/lib/flex-btrfs; rm -f /mnt/flex-btrfs.disk'
	done
}

# shellcheck shell=bash
# An XFS file system on each node, which shares data between files, and flex-node.
up() {
	local node
	test/cluster/packages.sh xfsprogs
	for node in $(nodes); do
		on_node "$node" 'grep -q " /var/lib/flex-loop " /proc/self/mountinfo || {
			truncate -s 16G /mnt/flex-loop.disk; mkfs.xfs -qf /mnt/flex-loop.disk
			mkdir -p /var/lib/flex-loop; mount -o loop /mnt/flex-loop.disk /var/lib/flex-loop; }'
	done
	kubectl apply --server-side -k deploy/node > /dev/null
	kubectl rollout status --timeout=2m -n flex-node ds/flex-node
}
down() {
	local node
	kubectl delete -k deploy/node --ignore-not-found > /dev/null
	for node in $(nodes); do
		on_node "$node" '! grep -q " /var/lib/flex-loop " /proc/self/mountinfo || umount /var/lib/flex-loop; rm -f /mnt/flex-loop.disk'
	done
}

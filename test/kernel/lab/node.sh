# shellcheck shell=bash
# Sourced by guest.sh on a node of the lab: containerd and the kubelet, as on a node of the test cluster, but with the
# machine's own kernel, cgroups and programs.
# shellcheck source=lib.sh
. "$LAB/lab/lib.sh"
cgroup_root() { echo /; }

start_role() {
	local c CMD
	modprobe -a virtio_blk bridge br_netfilter veth
	echo 1 > /proc/sys/net/ipv4/ip_forward
	for c in cpu cpuset io memory pids hugetlb; do echo "+$c" > /sys/fs/cgroup/cgroup.subtree_control; done
	mkdir -p "$NODE_STATE" /var/lib/flex-hostpath
	mount -t tmpfs -o mode=755 tmpfs "$NODE_STATE"
	mkdir -p "$NODE_STATE/containerd"
	mount /dev/vda "$NODE_STATE/containerd"
	mount -t tmpfs -o mode=755 tmpfs /var/lib/flex-hostpath
	mount --make-rshared /
	write_configs
	# An emulated processor is slow: a lease has time.
	sed -i '/^nodeStatusUpdateFrequency/d' "$NODE_STATE/kubelet.yaml"
	printf '%s\n' 'nodeStatusUpdateFrequency: 10s' 'nodeLeaseDurationSeconds: 120' 'runtimeRequestTimeout: 10m' \
		>> "$NODE_STATE/kubelet.yaml"
	containerd_command
	"${CMD[@]}" > /run/containerd.log 2>&1 &
	until_ok 60 "$BIN/ctr" -a "$NODE_RUN/containerd.sock" version
	stage "containerd runs"
	kubelet_command
	"${CMD[@]}" > /run/kubelet.log 2>&1 &
	stage "the kubelet starts"
}

# shellcheck shell=bash
# Sourced by guest.sh on a node of the lab: containerd and the kubelet, as on a node of the test cluster, but with the
# machine's own kernel, cgroups and programs.
# shellcheck source=lib.sh
. "$LAB/lab/lib.sh"
cgroup_root() { echo /; }

# selinux loads Debian's policy, with its module for containers, and enforces it. The directory of the class hostpath gets
# the label that docs/install-on.md asks for.
selinux() {
	mount -t selinuxfs selinuxfs /sys/fs/selinux
	load_policy
	setenforce 1
	chcon -R -t container_ro_file_t "$NODE_STATE"/containerd/*/snapshots # as an installation does
	chcon -t container_file_t /var/lib/flex-hostpath
	sed -i 's/^  sandbox_image/  enable_selinux = true\n&/' "$NODE_STATE/containerd.toml"
	stage "SELinux is $(getenforce)"
}

start_role() {
	local c controllers CMD
	modprobe -a bridge br_netfilter veth
	echo 1 > /proc/sys/net/ipv4/ip_forward
	read -ra controllers < /sys/fs/cgroup/cgroup.controllers
	for c in "${controllers[@]}"; do echo "+$c" > /sys/fs/cgroup/cgroup.subtree_control; done
	mkdir -p "$NODE_STATE" /var/lib/flex-hostpath
	mount -t tmpfs -o mode=755 tmpfs "$NODE_STATE"
	mkdir -p "$NODE_STATE/containerd"
	mount /dev/ubda "$NODE_STATE/containerd"
	mkdir -p "$NODE_STATE/containerd/flex-loop" /var/lib/flex-loop # a tmpfs would be memory of the pod that makes an image
	mount --bind "$NODE_STATE/containerd/flex-loop" /var/lib/flex-loop
	mount -t tmpfs -o mode=755 tmpfs /var/lib/flex-hostpath
	# The kubelet wants to know how fast the processor is.
	{ cat /proc/cpuinfo && printf 'cpu MHz\t\t: 2000.000\n'; } > /run/cpuinfo
	mount --bind /run/cpuinfo /proc/cpuinfo
	mount --make-rshared /
	write_configs
	# An idle kubelet would keep an emulated processor half busy: it looks around less often, and its lease has time.
	sed -i '/^nodeStatusUpdateFrequency\|^evictionHard/d' "$NODE_STATE/kubelet.yaml"
	cat >> "$NODE_STATE/kubelet.yaml" <<-C
	nodeStatusUpdateFrequency: 1m
	nodeLeaseDurationSeconds: 120
	runtimeRequestTimeout: 10m
	evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%,
	  imagefs.inodesFree: 0%}
	C
	[ "$NODE" != "$SELINUX_NODE" ] || selinux
	export GOGC=400
	containerd_command
	"${CMD[@]}" > /run/containerd.log 2>&1 &
	until_ok 60 "$BIN/ctr" -a "$NODE_RUN/containerd.sock" version
	stage "containerd runs"
	kubelet_command
	CMD+=(--housekeeping-interval=2m)
	"${CMD[@]}" > /run/kubelet.log 2>&1 &
	stage "the kubelet starts"
}

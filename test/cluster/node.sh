#!/bin/bash
# Run by nodes.sh in a node's new namespaces, NODE: makes of them a node whose processes leave nothing on the machine.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

network() {
	ip link set lo up
	echo 1 > /proc/sys/net/ipv4/ip_forward
	[ "$NODE" = node1 ] || return 0 # connect_node gives the others their cable
	ip link add knode0 type bridge
	ip addr add "$NODE_IP/24" dev knode0
	ip link set knode0 up
	ip route add 10.96.0.0/16 dev knode0
}

# private_run gives containerd, runc and the CNI plugins a /run of their own, in which $RUN is the machine's.
private_run() {
	mkdir -p "$NODE_STATE/run"
	mount -t tmpfs -o mode=755 tmpfs "$NODE_STATE/run"
	mkdir -p "$NODE_STATE/run/${RUN##*/}"
	mount --bind "$RUN" "$NODE_STATE/run/${RUN##*/}"
	mount --rbind "$NODE_STATE/run" /run
}

private_dirs() {
	local d
	for d in $PRIVATE_DIRS; do
		mkdir -p "$NODE_STATE/private$d"
		mount --bind "$NODE_STATE/private$d" "$d"
	done
}

# sysctls shows the kubelet files with the values that it would otherwise set for the whole machine.
sysctls() {
	local name value file
	mkdir -p "$NODE_STATE/sysctl"
	while read -r name value; do
		[ -e "/proc/sys/$name" ] || continue
		[ "$(cat "/proc/sys/$name")" != "$value" ] || continue
		file=$NODE_STATE/sysctl/${name//\//.}
		echo "$value" > "$file"
		mount --bind "$file" "/proc/sys/$name"
	done <<-S
	vm/overcommit_memory 1
	vm/panic_on_oom 0
	kernel/panic 10
	kernel/panic_on_oops 1
	kernel/keys/root_maxkeys 1000000
	kernel/keys/root_maxbytes 25000000
	S
}

mount --make-rshared / # pods with mount propagation, within these namespaces
network
private_run
private_dirs
sysctls

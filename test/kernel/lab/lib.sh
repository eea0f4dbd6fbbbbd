# shellcheck shell=bash disable=SC2034 # the names are for the scripts that source this
# Paths, processes and machines of the lab with a cluster. Sourced by the scripts beside it and in cases/. It is a second
# cluster of test/cluster's, in folders of its own, so that both can run at the same time.
FLEX_CLUSTER=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)/bin/kernel/cluster
export FLEX_CLUSTER FLEX_RUN=/run/flex-lab
# shellcheck source=../lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
# shellcheck source=../../cluster/components.sh
. "$HERE/components.sh"
# Settings of the test cluster's components.
SPARE=0 PLEG=evented ISCSI=0 KUBERNETES='' SNAPSHOTS=0 APISERVER_EXTRA='' SLOW=10
# node1 is no machine, but the network namespace with the control plane.
NODES_OF_LAB="node2 node3"
STORAGE=node5
STORAGE_IP=10.99.0.5       # NFS, Cinder, and the first portal
SECOND_NET=10.97.0         # the second portal's: every machine has two network cards
IMAGES=(flex-provisioner flexctl shell hostpath nfs-subdir cinder-iscsi)

kubectl() { nsenter -t "$(pid_of "$NODE")" -n -m -p --wd="$REPO" -- "$BIN/kubectl" --kubeconfig "$PKI/admin.kubeconfig" "$@"; }

# at MACHINE COMMAND...: runs a command there, and has its exit code.
at() {
	local out
	out=$(echo "${*:2}; echo \$?" | inside socat -t 1200 - "TCP:10.99.0.${1#node}:$SHELL_PORT")
	[ "${out##*$'\n'}" = "$out" ] || echo "${out%$'\n'*}"
	return "${out##*$'\n'}"
}

# boot MACHINE MEMORY ROLE: gives it power, and a cable to each of two networks.
boot() {
	local node=$1 i=${1#node} CMD cards=() net
	for net in 0 1; do
		inside ip tuntap add "$node-$net" mode tap
		inside ip link set "$node-$net" master "net$net" up
		cards+=(-netdev "tap,id=net$net,ifname=$node-$net,script=no,downscript=no"
			-device "virtio-net-pci,netdev=net$net,mac=52:54:00:00:0$net:0$i")
	done
	[ -n "${BUILD:-}" ] || BUILD=$("$LAB/build.sh")
	SMP=1 machine_command "$node" "$2" "ROLE=$3" "FLEX_CLUSTER=$CLUSTER" "FLEX_RUN=$RUN" ${4:-}
	[ "$3" != node ] || CMD+=(-drive "file=$STATE/disk.img,format=raw,if=virtio,snapshot=on")
	spawn "$node" "${CMD[@]}" "${cards[@]}"
}

# power_off MACHINE takes its power and its cables.
power_off() {
	local net
	stop "$1" KILL
	for net in 0 1; do inside ip link del "$1-$net"; done
}

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
SELINUX_NODE=node4        # enforces SELinux; its case starts it
STORAGE=node5
STORAGE_IP=10.99.0.5       # NFS, Cinder, and the first portal
SECOND_NET=10.97.0         # the second portal's: every machine has two network cards
IMAGES=(flex-provisioner flexctl flex-node shell hostpath nfs-subdir cinder-iscsi loop)

kubectl() {
	nsenter -t "$(pid_of "$NODE")" -n -m -p --wd="$REPO" -- "$BIN/kubectl" --kubeconfig "$PKI/admin.kubeconfig" "$@"
}

# at MACHINE COMMAND...: runs a command there, and has its exit code.
at() {
	local out
	out=$(echo "${*:2}; echo \$?" | inside socat -t 1200 - "TCP:10.99.0.${1#node}:$SHELL_PORT")
	[ "${out##*$'\n'}" = "$out" ] || echo "${out%$'\n'*}"
	return "${out##*$'\n'}"
}

# boot MACHINE MEMORY ROLE: starts its kernel, as a program of this machine (user-mode Linux), with a cable to each of
# two networks.
boot() {
	local node=$1 net CMD
	[ -n "${BUILD:-}" ] || BUILD=$("$LAB/build.sh")
	CMD=("$BUILD/root/usr/bin/linux.uml" "mem=$2" "initrd=$BUILD/uml.gz" "umid=$node" "uml_dir=$RUN/uml/" con=null
		"con0=null,fd:1" quiet "REPO=$REPO" "NODE=$node" "BUILD=$BUILD" "ROLE=$3" KEEP=0 CASES=
		"FLEX_CLUSTER=$CLUSTER" "FLEX_RUN=$RUN")
	for net in 0 1; do
		inside ip tuntap add "$node-$net" mode tap
		inside ip link set "$node-$net" master "net$net" up
		CMD+=("vec$net:transport=tap,ifname=$node-$net,mac=52:54:00:00:0$net:0${node#node}")
	done
	if [ "$3" = node ]; then
		[ -e "$STATE/$node.img" ] || cp --sparse=always "$STATE/disk.img" "$STATE/$node.img"
		CMD+=("ubd0=$STATE/$node.img")
	fi
	spawn "$node" "${CMD[@]}"
}

# power_off MACHINE takes its power, with the processes that its kernel made of its own, and its cables.
power_off() {
	local net
	kill -KILL -- "-$(pid_of "$1")"
	until_ok 120 gone "$1" || die "$1 survived"
	for net in 0 1; do inside ip link del "$1-$net"; done
}

#!/bin/bash
# Starts the cluster, or says that it runs. Settings, from the environment:
#   PLEG=default|evented   evented sees containers end half a second sooner, by an alpha feature of the kubelet
#   ISCSI=1                with a target, and an imitated iscsiadm for kernels without SCSI (standin/iscsi)
#   NODES=N                N nodes, 1 to 5; the default is 1
#   SPARE=1                the nodes beside node1 have the label and the taint flex-provisioner.io/spare=true
#   KWOK=N                 with N simulated nodes (kwok-up.sh)
#   KUBERNETES=1.30|1.33   the whole cluster of an older version
#   SNAPSHOTS=1|8.6        snapshots are served, and the snapshot-controller runs: the newest, or an older version
#   APISERVER_EXTRA=...    more flags for kube-apiserver, separated by spaces
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=components.sh
. "$HERE/components.sh"
# shellcheck source=nodes.sh
. "$HERE/nodes.sh"
# shellcheck source=down.sh
. "$HERE/down.sh"
SETTINGS="NODES SPARE PLEG ISCSI KUBERNETES SNAPSHOTS APISERVER_EXTRA"

check_settings() {
	case ${PLEG:-default} in default | evented) ;; *) die "PLEG=$PLEG: must be default or evented" ;; esac
	case ${KUBERNETES:-} in '' | 1.30 | 1.33) ;; *) die "KUBERNETES=$KUBERNETES: must be 1.30 or 1.33, or not set for the newest" ;; esac
	case ${ISCSI:-0} in 0 | 1) ;; *) die "ISCSI=$ISCSI: must be 0 or 1" ;; esac
	case ${SNAPSHOTS:-0} in 0 | 1 | 8.6) ;; *) die "SNAPSHOTS=$SNAPSHOTS: must be 0, or 1 for the newest snapshot-controller, or 8.6" ;; esac
	case ${NODES:-1} in [1-"$MAX_NODES"]) ;; *) die "NODES=$NODES: must be a number from 1 to $MAX_NODES" ;; esac
	case ${SPARE:-0} in 0 | 1) ;; *) die "SPARE=$SPARE: must be 0 or 1" ;; esac
	case ${KWOK:-0} in *[!0-9]*) die "KWOK=$KWOK: must be a number of nodes" ;; esac
}

already_running() {
	alive node1 || return 1
	local c v was sick=
	# shellcheck source=/dev/null # written by save_settings
	for c in $(. "$STATE/settings" && components); do { alive "$c" && healthy "$c" > /dev/null 2>&1; } || sick+=" $c"; done
	[ -z "$sick" ] || die "is running, but not healthy:$sick: see $LOG, then test/cluster/ctl.sh start NAME or make cluster-down"
	for v in $SETTINGS; do
		# shellcheck source=/dev/null # written by save_settings
		was=$(. "$STATE/settings" && echo "${!v}")
		[ "${!v-$was}" = "$was" ] || die "is running with $v='$was', not '${!v}': make cluster-down first"
	done
}

prepare() {
	local p=(busybox-static curl gcc iproute2 kmod libc6-dev libseccomp-dev nftables openssl pkg-config socat util-linux)
	[ "${ISCSI:-0}" = 0 ] || p+=(tgt qemu-system-common qemu-block-extra e2fsprogs)
	"$HERE/packages.sh" "${p[@]}"
	"$HERE/build.sh" kubernetes
	[ -z "${KUBERNETES:-}" ] || "$HERE/build.sh" "kubernetes-$KUBERNETES"
	case ${SNAPSHOTS:-0} in
	1) "$HERE/build.sh" snapshot ;;
	8.6) "$HERE/build.sh" snapshot-8.6 ;;
	esac
	"$HERE/build.sh" runtime
	"$HERE/pki.sh"
}

save_settings() {
	NODES=${NODES:-1} SPARE=${SPARE:-0} PLEG=${PLEG:-default} ISCSI=${ISCSI:-0} KUBERNETES=${KUBERNETES:-} SNAPSHOTS=${SNAPSHOTS:-0} APISERVER_EXTRA=${APISERVER_EXTRA:-}
	local v
	for v in $SETTINGS; do printf '%s=%q\n' "$v" "${!v}"; done > "$STATE/settings"
}

# forward makes the API server reachable on the machine's own loopback, through a socket that both namespaces see.
forward() {
	spawn api-inside socat "UNIX-LISTEN:$RUN/api.sock,fork" TCP:127.0.0.1:6443,nodelay
	until_ok 5 test -S "$RUN/api.sock" || die "no socket $RUN/api.sock: see $LOG/api-inside.log"
	setsid socat "TCP-LISTEN:$HOST_PORT,bind=127.0.0.1,fork,reuseaddr,nodelay" "UNIX-CONNECT:$RUN/api.sock" > "$LOG/api-outside.log" 2>&1 < /dev/null 9>&- &
	record api-outside $!
	disown
}

start_all() {
	local c
	for c in etcd kube-apiserver; do start "$c"; done
	for_nodes start_runtime
	wait_healthy kube-apiserver
	for c in kube-controller-manager kube-scheduler; do start "$c"; done
	for_nodes start_kubelet
	forward
	[ "$SNAPSHOTS" = 0 ] || start_snapshots
}

# start_snapshots has the API server serve snapshots before the controller starts, which ends where they are not served.
start_snapshots() {
	kubectl apply --server-side -f "$BIN/snapshot-crds$(snapshot_version).yaml" > "$LOG/snapshot-crds.log"
	kubectl wait --for=condition=Established --timeout=60s -f "$BIN/snapshot-crds$(snapshot_version).yaml" >> "$LOG/snapshot-crds.log" ||
		die "snapshots are not served: see $LOG/snapshot-crds.log"
	start snapshot-controller
}

# for_nodes FUNCTION: runs it for all nodes at once.
for_nodes() {
	local node all=()
	for node in $(nodes); do
		(on "$node" && "$1") &
		all+=($!)
	done
	for node in "${all[@]}"; do wait "$node" || exit 1; done
}

nodes_ready() { [ "$(kubectl get node -o 'jsonpath={.items[*].status.conditions[?(@.type=="Ready")].status}')" = "$(nodes | sed s/.*/True/ | xargs)" ]; }
kubectl() { "$BIN/kubectl" --kubeconfig "$CLUSTER/kubeconfig" "$@"; }

main() {
	need_root
	check_settings
	lock
	need_ours
	if already_running; then
		say "is running: export KUBECONFIG=$CLUSTER/kubeconfig"
	else
		prepare
		take_down # what a crash may have left
		bring_up
	fi
	exec 9>&-
	[ "${KWOK:-0}" = 0 ] || "$HERE/kwok-up.sh" "$KWOK"
}

bring_up() {
	local began
	began=$(now)
	mkdir -p "$PIDS" "$STATE" "$LOG"
	rm -f "$LOG"/*.log
	echo "$CLUSTER" > "$RUN/owner"
	ln -sfn "$PIDS" "$CLUSTER/run"
	trap take_down EXIT
	save_settings
	local node c
	for node in $(nodes); do
		on "$node"
		boot_node
	done
	on node1
	[ "$ISCSI" = 0 ] || . "$HERE/iscsi.sh"
	start_all
	for c in $(components); do wait_healthy "$c"; done
	until_ok 60 nodes_ready || die "not all nodes became ready in 60 s: see $LOG/kubelet*.log"
	until_ok 60 kubectl -n default get serviceaccount default || die "no ServiceAccounts are made: see $LOG/kube-controller-manager.log"
	trap - EXIT
	say "$NODES node(s) ready after $(since "$began"): export KUBECONFIG=$CLUSTER/kubeconfig"
}
main

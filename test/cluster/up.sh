#!/bin/bash
# Starts the cluster, or says that it runs. Settings, from the environment:
#   PLEG=default|evented   evented sees containers end half a second sooner, by an alpha feature of the kubelet
#   ISCSI=1                with a target, and an imitated iscsiadm for kernels without SCSI (standin/iscsi)
#   KWOK=N                 with N simulated nodes (kwok-up.sh)
#   APISERVER_EXTRA=...    more flags for kube-apiserver, separated by spaces
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=components.sh
. "$HERE/components.sh"
# shellcheck source=down.sh
. "$HERE/down.sh"
SETTINGS="PLEG ISCSI APISERVER_EXTRA"

check_settings() {
	case ${PLEG:-default} in default | evented) ;; *) die "PLEG=$PLEG: must be default or evented" ;; esac
	case ${ISCSI:-0} in 0 | 1) ;; *) die "ISCSI=$ISCSI: must be 0 or 1" ;; esac
	case ${KWOK:-0} in *[!0-9]*) die "KWOK=$KWOK: must be a number of nodes" ;; esac
}

already_running() {
	alive holder || return 1
	local c v was sick=
	for c in $COMPONENTS; do { alive "$c" && healthy "$c" > /dev/null 2>&1; } || sick+=" $c"; done
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
	"$HERE/build.sh" runtime
	"$HERE/pki.sh"
}

save_settings() {
	PLEG=${PLEG:-default} ISCSI=${ISCSI:-0} APISERVER_EXTRA=${APISERVER_EXTRA:-}
	local v
	for v in $SETTINGS; do printf '%s=%q\n' "$v" "${!v}"; done > "$STATE/settings"
}

# make_namespaces starts process 1 of the cluster's pid namespace. When it dies the kernel kills everything in there, and
# with the last process go the mounts and the network.
make_namespaces() {
	local unshare
	setsid unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
		bash -c 'trap "" HUP INT TERM; while :; do sleep 3600 & wait $!; done' > "$LOG/holder.log" 2>&1 < /dev/null 9>&- &
	unshare=$!
	disown
	until_ok 5 has_begun "$unshare" || die "could not make namespaces: see $LOG/holder.log"
	record holder "$(child_of "$unshare")"
	# shellcheck disable=SC2086 # a list
	make_dirs $PRIVATE_DIRS /run/mount
	inside "$HERE/node.sh"
}
# Until its shell runs the child has not mounted its own /proc.
has_begun() { [ "$(cat "/proc/$(child_of "$1")/comm")" = bash ]; }

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
	for c in etcd kube-apiserver containerd; do start "$c"; done
	wait_healthy containerd
	"$HERE/load-image.sh" "$BIN"/images/*.tar > "$LOG/load-image.log" 2>&1 || die "could not load images: see $LOG/load-image.log"
	wait_healthy kube-apiserver
	for c in kube-controller-manager kube-scheduler kubelet kube-proxy; do start "$c"; done
	forward
}

node_ready() { [ "$(kubectl get node "$NODE" -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}')" = True ]; }
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
	write_configs
	make_namespaces
	[ "$ISCSI" = 0 ] || . "$HERE/iscsi.sh"
	start_all
	local c
	for c in $COMPONENTS; do wait_healthy "$c"; done
	until_ok 60 node_ready || die "$NODE did not become ready in 60 s: see $LOG/kubelet.log"
	until_ok 60 kubectl -n default get serviceaccount default || die "no ServiceAccounts are made: see $LOG/kube-controller-manager.log"
	trap - EXIT
	say "node ready after $(since "$began"): export KUBECONFIG=$CLUSTER/kubeconfig"
}
main

#!/bin/bash
# ctl.sh kill|start|restart|pid NAME, ctl.sh status: crashes single components, by SIGKILL, and starts them again with the
# flags they had. start waits until the component is healthy. "start etcd --empty" and "restart etcd --empty" lose its data
# first; what else runs then still remembers the old ones. A component of another node than node1 is NAME@NODE.
#
# NAME may also be such a node: kill takes its power, with all that runs there, and start boots it, with what it had on its
# disk, or with nothing: --empty.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=components.sh
. "$HERE/components.sh"
# shellcheck source=nodes.sh
. "$HERE/nodes.sh"

status() {
	local c state
	for c in $(components); do
		state=healthy
		healthy "$c" > /dev/null 2>&1 || state=unhealthy
		alive "$c" || state=dead
		printf '%-24s %-10s %s\n' "$c" "$state" "$(pid_of "$c")"
	done
}

is_node() { [ "$1" != node1 ] && nodes | grep -qx "$1"; }

end() {
	if is_node "$1"; then
		on "$1"
		cut_node
	else
		stop "$1" KILL
	fi
}

begin() {
	alive "$1" && die "$1 is running: ctl.sh restart $1"
	case "$1 ${2:-}" in
	"etcd --empty") rm -rf "$STATE/etcd" ;;
	node*" --empty") rm -rf --one-file-system "$STATE/${1:?}" ;;
	"$1 ") ;;
	*) die "$1 has no option $2" ;;
	esac
	if is_node "$1"; then
		on "$1"
		boot_node
		start_runtime
		start_kubelet
	else
		start "$1"
		wait_healthy "$1"
	fi
}

main() {
	need_root
	need_running
	local verb=${1:-} name=${2:-}
	[ "$verb" = status ] || is_node "$name" || check_component "$name"
	case $verb in
	status) status ;;
	pid) pid_of "$name" ;;
	kill) lock && end "$name" ;;
	start) lock && begin "$name" "${3:-}" ;;
	restart) lock && end "$name" && begin "$name" "${3:-}" ;;
	*) die "usage: ctl.sh kill|start|restart|pid NAME, or ctl.sh status" ;;
	esac
}
main "$@"

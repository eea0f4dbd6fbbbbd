#!/bin/bash
# ctl.sh kill|start|restart|pid COMPONENT, ctl.sh status: crashes single components, by SIGKILL, and starts them again with
# the flags they had. start waits until the component is healthy. "start etcd --empty" and "restart etcd --empty" lose
# its data first; what else runs then still remembers the old ones.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=components.sh
. "$HERE/components.sh"

status() {
	local c state
	for c in $COMPONENTS; do
		state=healthy
		healthy "$c" > /dev/null 2>&1 || state=unhealthy
		alive "$c" || state=dead
		printf '%-24s %-10s %s\n' "$c" "$state" "$(pid_of "$c")"
	done
}

begin() {
	alive "$1" && die "$1 is running: ctl.sh restart $1"
	case "$1 ${2:-}" in
	"etcd --empty") rm -rf "$STATE/etcd" ;;
	"$1 ") ;;
	*) die "$1 has no option $2" ;;
	esac
	start "$1"
	wait_healthy "$1"
}

main() {
	need_root
	need_running
	local verb=${1:-} component=${2:-}
	# shellcheck source=/dev/null # written by up.sh
	. "$STATE/settings"
	[ "$verb" = status ] || check_component "$component"
	case $verb in
	status) status ;;
	pid) pid_of "$component" ;;
	kill) lock && stop "$component" KILL ;;
	start) lock && begin "$component" "${3:-}" ;;
	restart) lock && stop "$component" KILL && begin "$component" "${3:-}" ;;
	*) die "usage: ctl.sh kill|start|restart|pid COMPONENT, or ctl.sh status" ;;
	esac
}
main "$@"

#!/bin/bash
# ctl.sh kill|start|restart|pid cinder|tgtd: crashes Cinder, which is its API, scheduler and volume service in one process,
# or its iSCSI target, by SIGKILL, and starts it again with the data it had. start waits until it answers.
set -eu
# shellcheck source=up.sh
. "$(dirname "$0")/up.sh"

begin() {
	! alive "$1" || die "$1 is running: ctl.sh restart $1"
	case $1 in
	cinder) launch_cinder && wait_for_cinder ;;
	# The daemon keeps its targets in memory alone: they are in Cinder's files. Cinder may add one meanwhile, which is an
	# error to tgt-admin and the end of the others.
	tgtd) launch_tgtd && on_place env TGT_IPC_SOCKET="$STATE/tgt.sock" "$STATE/bin/tgt-admin" --execute --ignore-errors ;;
	esac
}

control() {
	local verb=${1:-} name=${2:-}
	need_root
	lock
	need_ours
	[ -e "$STATE/settings" ] || die "is not running: make cinder-up"
	# shellcheck source=/dev/null # written by save_settings
	. "$STATE/settings"
	check_settings
	case $verb,$name in
	pid,cinder | pid,tgtd) pid_of "$name" ;;
	kill,cinder | kill,tgtd) stop "$name" KILL ;;
	start,cinder | start,tgtd) begin "$name" ;;
	restart,cinder | restart,tgtd) stop "$name" KILL && begin "$name" ;;
	*) die "usage: ctl.sh kill|start|restart|pid cinder|tgtd" ;;
	esac
}
control "$@"

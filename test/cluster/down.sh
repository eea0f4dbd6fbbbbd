#!/bin/bash
# Stops the cluster and leaves the machine as it was. Logs, certificates and the cache of binaries stay.
set -eu
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

take_down() {
	local pid
	if pid=$(pid_of api-outside); then kill -KILL -- "-$pid" 2>/dev/null || true; fi # with its connections
	stop holder KILL
	stop api-outside KILL
	remove_loops
	remove_cgroups
	[ ! -e "$RUN/made" ] || xargs rmdir --ignore-fail-on-non-empty < "$RUN/made" || true
	rm -rf --one-file-system "$STATE" "$RUN"
	rm -f "$CLUSTER/run"
}

# remove_loops frees the loop devices of imitated iSCSI sessions, which outlive the processes that made them. Their file
# is in a mount that is gone, which shows as /.
remove_loops() {
	local f loop
	for f in "$RUN"/iscsi/*/loop; do
		[ -e "$f" ] || continue
		loop=$(cat "$f")
		case $(cat "/sys/block/${loop#/dev/}/loop/backing_file" 2>/dev/null) in
		/ | "$RUN"/iscsi/*) losetup -d "$loop" || true ;;
		esac
	done
}

remove_cgroups() {
	local d
	for d in /sys/fs/cgroup/{kubepods,k8s.io} /sys/fs/cgroup/*/{kubepods,k8s.io}; do
		[ ! -d "$d" ] || until_ok 10 remove_cgroup "$d" || die "cgroup $d still has processes"
	done
}
# A cgroup stays busy for a moment after its last process was killed.
remove_cgroup() { find "$1" -depth -type d -exec rmdir {} \; && [ ! -d "$1" ]; }

down() {
	local began was=
	need_root
	lock
	need_ours
	began=$(now)
	[ ! -e "$RUN" ] || was=1
	take_down
	if [ -n "$was" ]; then say "stopped in $(since "$began")"; else say "is not running"; fi
}
[ "${BASH_SOURCE[0]}" != "$0" ] || down

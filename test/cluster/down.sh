#!/bin/bash
# Stops the cluster and leaves the machine as it was. Logs, certificates and the cache of binaries stay.
set -eu
# shellcheck source=lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=components.sh
. "$HERE/components.sh"
# shellcheck source=nodes.sh
. "$HERE/nodes.sh"

take_down() {
	local pid node cgroup
	if pid=$(pid_of api-outside); then kill -KILL -- "-$pid" 2>/dev/null || true; fi # with its connections
	for node in $(NODES=$MAX_NODES nodes | tac); do
		on "$node"
		cut_node
	done
	stop api-outside KILL
	for cgroup in kubepods k8s.io; do remove_cgroups "$cgroup"; done
	[ ! -e "$RUN/made" ] || xargs rmdir --ignore-fail-on-non-empty < "$RUN/made" || true
	rm -rf --one-file-system "$STATE" "$RUN"
	rm -f "$CLUSTER/run"
}

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

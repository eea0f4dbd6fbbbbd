# shellcheck shell=bash disable=SC2034 # the names are for the scripts that source this
# Paths, settings and processes of the test Cinder. Sourced by the scripts beside it; it does nothing by itself.
# Pids, waiting and clocks are those of the test cluster's lib.sh, on paths of our own.

# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
CLUSTER_PIDS=$PIDS
CLUSTER_OWNER=$RUN/owner
HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CINDER=$(readlink -m "$REPO/.cinder") # everything of this checkout's Cinder; worktrees may share one by a link
LOG=$CINDER/log          # stays after down.sh
STATE=$CINDER/state      # data bases, volumes, configuration, and sockets: the cluster has a /run of its own
RUN=/run/flex-cinder     # pids; there is one Cinder a machine, and $RUN/owner says whose
PIDS=$RUN/pids
ENV=$CINDER/env          # for programs on this machine
POD_ENV=$CINDER/env.pods # the same for pods of the test cluster

API_PORT=8776
KEYSTONE_PORT=5000
ISCSI_PORT=3261          # not 3260: the test cluster's own target has that with ISCSI=1
CEPH_PORT=16789

PROGRAMS="cinder keystone tgtd ceph-osd ceph-mgr ceph-mon cinder-inside cinder-outside keystone-inside keystone-outside"
SETTINGS="AUTH CEPH PLACE DISCOVERY_AUTH TOKEN_TTL TOKEN_CACHE"

say() { echo "cinder: $*"; }
die() { echo "cinder: $*" >&2; exit 1; }

# the_node prints the pid of the test cluster's first process, if the cluster of this checkout runs.
the_node() {
	[ "$(cat "$CLUSTER_OWNER" 2>/dev/null)" = "$CLUSTER" ] && PIDS=$CLUSTER_PIDS pid_of node1
}

# on_place COMMAND...: run in the cluster's namespaces where PLACE=node, else right here.
on_place() {
	if [ "$PLACE" = node ]; then
		nsenter -t "$(the_node)" -n -m -p --wd="$HERE" -- "$@"
	else
		"$@"
	fi
}

# launch NAME COMMAND...: on_place, in the background. nsenter forks to enter the pid namespace and waits; the pid that
# counts is its child's.
launch() {
	local name=$1 node pid
	shift
	if [ "$PLACE" = node ]; then
		# Found out before: in the background's own shell it would be the first child to be seen.
		node=$(the_node) || die "the test cluster is gone"
		setsid nsenter -t "$node" -n -m -p --wd="$STATE" -- "$@" >> "$LOG/$name.log" 2>&1 < /dev/null 9>&- &
		until_ok 5 child_of $! || die "$name did not start: see $LOG/$name.log"
		pid=$(child_of $!)
	else
		setsid "$@" >> "$LOG/$name.log" 2>&1 < /dev/null 9>&- &
		pid=$!
	fi
	record "$name" "$pid"
}

# step TEXT BEGAN: what was done and how long it took.
step() { say "$1: $(since "$2")"; }

need_root() { [ "$(id -u)" = 0 ] || die "needs root: iSCSI targets, privileged code of Cinder, namespaces"; }

# need_ours refuses to touch the Cinder of another checkout, unless that checkout is gone.
need_ours() {
	local owner
	owner=$(cat "$RUN/owner" 2>/dev/null) || return 0
	[ "$owner" = "$CINDER" ] || [ ! -d "$owner" ] || gone cinder || die "the Cinder of $owner is running on this machine: make cinder-down there"
}

# One up or down at a time. Children must not inherit the lock, hence 9>&- in launch.
lock() {
	mkdir -p "$CINDER"
	exec 9> "$CINDER/lock"
	flock -n 9 || { say "waiting for another command on this Cinder"; flock 9; }
}

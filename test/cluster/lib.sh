# shellcheck shell=bash disable=SC2034 # the names are for the scripts that source this
# Paths, settings and processes of the test cluster. Sourced by the scripts beside it; it does nothing by itself.

HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
REPO=$(cd "$HERE/../.." && pwd)
# Everything of this checkout's cluster; worktrees may share one by a link. A second cluster (test/kernel) has other folders.
CLUSTER=${FLEX_CLUSTER:-$(readlink -m "$REPO/.cluster")}
BIN=$CLUSTER/bin             # links into the cache of build.sh
PKI=$CLUSTER/pki
LOG=$CLUSTER/log
STATE=$CLUSTER/state         # data of etcd, containerd and kubelet, removed by down.sh
RUN=${FLEX_RUN:-/run/flex-cluster} # sockets and pids; there is one cluster a machine, and $RUN/owner says whose
PIDS=$RUN/pids               # one file a process, see record
NODE1_IP=10.99.0.1           # the control plane's node
MAX_NODES=5
HOST_PORT=16443              # the API server on the machine's 127.0.0.1
API=https://$NODE1_IP:6443   # the same for the nodes

# on NODE sets what differs by node: where its state and its sockets lie, and its addresses.
on() {
	NODE=$1
	NODE_STATE=$STATE/$NODE # data of containerd and kubelet: its disk
	NODE_RUN=$RUN/$NODE     # sockets and iSCSI sessions: what a power cut takes
	NODE_IP=10.99.0.${NODE#node}
	POD_RANGE=10.244.$((${NODE#node} - 1)).0/24
	# Seen by the node alone; short, since sockets lie there.
	PRIVATE_DIRS="/var/lib/cni /var/lib/kubelet /var/log/containers"
	# Tests look at node1's volumes from the machine. Those of the other nodes are their own.
	[ "$NODE" = node1 ] || PRIVATE_DIRS+=" /mnt /var/lib/flex-hostpath"
}
on "${NODE:-node1}" # a stand-in runs where its kubelet says

# nodes prints the names of all nodes.
nodes() {
	local i
	for i in $(seq "${NODES:-1}"); do echo "node$i"; done
}

say() { echo "cluster: $*"; }
die() { echo "cluster: $*" >&2; exit 1; }

# Tenths of a second since the machine started, from /proc/uptime.
now() { local up _; read -r up _ < /proc/uptime; up=${up/./}; echo "${up%?}"; }
since() { local d=$(($(now) - $1)); echo "$((d / 10)).$((d % 10)) s"; }

# until_ok SECONDS COMMAND...: try until it succeeds, SLOW times as long on a machine that is slow.
until_ok() {
	local end=$(($(now) + $1 * 10 * ${SLOW:-1}))
	shift
	until "$@" > /dev/null 2>&1; do
		[ "$(now)" -lt "$end" ] || return 1
		sleep 0.05
	done
}

# ---- processes. A pid file holds "pid start boot": start is the process's start time and boot the kernel's boot id, so
# that a pid that went to somebody else, after a crash or a reboot, is never taken for ours.

start_of() { # field 22 of stat; the second, a name in brackets, may hold spaces
	local stat
	stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
	read -ra stat <<< "${stat##*) }"
	echo "${stat[19]}"
}
boot_id() { cat /proc/sys/kernel/random/boot_id; }

record() { echo "$2 $(start_of "$2") $(boot_id)" > "$PIDS/$1.pid"; }

# pid_of NAME prints the pid of a process of ours if that very process is alive.
pid_of() {
	local pid start boot
	{ read -r pid start boot < "$PIDS/$1.pid"; } 2>/dev/null || return 1
	[ "$boot" = "$(boot_id)" ] && [ "$start" = "$(start_of "$pid")" ] && echo "$pid"
}
alive() { pid_of "$1" > /dev/null; }
gone() { ! alive "$1"; }

child_of() { local c; c=$(cat "/proc/$1/task/$1/children" 2>/dev/null); c=${c%% *}; [ -n "$c" ] && echo "$c"; }

# inside COMMAND...: run in the node's network, mount and pid namespaces.
inside() { nsenter -t "$(pid_of "$NODE")" -n -m -p -- "$@"; }

# spawn NAME COMMAND...: start in the node's namespaces, in the background. nsenter forks to enter the pid namespace and waits;
# the pid that counts is its child's.
spawn() {
	local name=$1 node enter pid
	shift
	node=$(pid_of "$NODE") || die "$NODE is not running: make cluster-up, or ctl.sh start $NODE"
	alone setsid nsenter -t "$node" -n -m -p -- "$@" >> "$LOG/$name.log" 2>&1 < /dev/null &
	enter=$!
	disown
	until_ok 5 child_of "$enter" || die "$name did not start: see $LOG/$name.log"
	pid=$(child_of "$enter")
	record "$name" "$pid"
}

# alone COMMAND...: become the command, without the files that callers have open. A component outlives them, and with a
# lock of theirs it would hold the lock.
alone() {
	local fd
	for fd in "/proc/$BASHPID/fd"/*; do
		fd=${fd##*/}
		[ "$fd" -le 2 ] || exec {fd}>&-
	done
	exec "$@"
}

# stop NAME SIGNAL: by pid, and wait until it is gone.
stop() {
	local pid
	if pid=$(pid_of "$1"); then
		kill "-$2" "$pid" 2>/dev/null || true
		until_ok 20 gone "$1" || die "$1 (pid $pid) survived signal $2"
	fi
	rm -f "$PIDS/$1.pid"
}

need_root() { [ "$(id -u)" = 0 ] || die "needs root: namespaces, cgroups and mounts"; }

# need_ours refuses to touch the cluster of another checkout, unless that checkout is gone.
need_ours() {
	local owner
	owner=$(cat "$RUN/owner" 2>/dev/null) || return 0
	[ "$owner" = "$CLUSTER" ] || [ ! -d "$owner" ] || gone node1 || die "the cluster of $owner is running on this machine: make cluster-down there"
}

# make_dirs DIR...: makes those that the machine lacks, noting them for down.sh.
make_dirs() {
	local d
	for d; do
		[ -d "$d" ] || { mkdir -p "$d" && echo "$d" >> "$RUN/made"; }
	done
}
# need_running also reads the settings that the cluster was started with.
need_running() {
	alive node1 || die "is not running: make cluster-up"
	# shellcheck source=/dev/null # written by up.sh
	. "$STATE/settings"
}

# One up, down, start or kill at a time. Children must not inherit the lock, hence 9>&- in spawn.
lock() {
	mkdir -p "$CLUSTER"
	exec 9> "$CLUSTER/lock"
	flock -n 9 || { say "waiting for another command on this cluster"; flock 9; }
}

# shellcheck shell=bash disable=SC2154 # the settings come from up.sh
# The nodes, each in network, mount and pid namespaces of its own: how one gets its power, and how it loses it. Sourced after
# components.sh. All of them are connected to a bridge in node1's network.

# boot_node makes the namespaces of $NODE and what its components read. Nothing runs there yet.
boot_node() {
	rm -rf --one-file-system "$NODE_RUN"
	mkdir -p "$NODE_STATE" "$NODE_RUN"
	make_namespaces
	[ "$NODE" = node1 ] || connect_node
	make_cgroup
	[ "$ISCSI" = 0 ] || iscsi_node
	write_configs
}

# make_namespaces starts process 1 of the node's pid namespace. When it dies the kernel kills everything in there, and
# with the last process go the mounts and the network.
make_namespaces() {
	local unshare
	setsid unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
		bash -c 'trap "" HUP INT TERM; while :; do sleep 3600 & wait $!; done' > "$LOG/$NODE.log" 2>&1 < /dev/null 9>&- &
	unshare=$!
	disown
	until_ok 5 has_begun "$unshare" || die "could not make namespaces: see $LOG/$NODE.log"
	record "$NODE" "$(child_of "$unshare")"
	# shellcheck disable=SC2086 # a list
	make_dirs $PRIVATE_DIRS /run/mount
	inside env NODE="$NODE" "$HERE/node.sh"
}
# Until its shell runs the child has not mounted its own /proc.
has_begun() { [ "$(cat "/proc/$(child_of "$1")/comm")" = bash ]; }

# connect_node plugs the node's cable into node1's bridge, and tells both where the other's pods are.
connect_node() {
	local other
	nsenter -t "$(pid_of node1)" -n -- ip link add "to-$NODE" type veth peer name eth0 netns "$(pid_of "$NODE")"
	nsenter -t "$(pid_of node1)" -n -- ip link set "to-$NODE" master knode0 up
	inside ip addr add "$NODE_IP/24" dev eth0
	inside ip link set eth0 up
	inside ip route add 10.96.0.0/16 dev eth0
	for other in $(nodes); do
		[ "$other" != "$NODE" ] || continue
		# shellcheck disable=SC2046 # a range and an address
		inside ip route add $(on "$other" && echo "$POD_RANGE via $NODE_IP")
	done
	nsenter -t "$(pid_of node1)" -n -- ip route replace "$POD_RANGE" via "$NODE_IP"
}

# cgroups prints what hierarchies there are: one, or one for each controller.
cgroups() {
	local d
	for d in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ -L "$d" ] || [ ! -e "$d/cgroup.procs" ] || [ -e "$d/cgroup.type" ] || echo "$d"
	done
}
make_cgroup() {
	local d
	[ "$NODE" != node1 ] || return 0
	for d in $(cgroups); do mkdir -p "$d$(cgroup_root)"; done
}

# start_runtime starts the node's containerd and gives it the images.
start_runtime() {
	start "$(component containerd)"
	wait_healthy "$(component containerd)"
	"$HERE/load-image.sh" --node "$NODE" "$BIN"/images/*.tar > "$LOG/$(component load-image).log" 2>&1 ||
		die "could not load images: see $LOG/$(component load-image).log"
}

start_kubelet() {
	local c
	for c in kubelet kube-proxy; do start "$(component $c)"; done
	for c in kubelet kube-proxy; do wait_healthy "$(component $c)"; done
}

# cut_node takes the node's power. The cable goes first, so that nobody hears the end of a connection.
cut_node() {
	local c
	[ "$NODE" = node1 ] || nsenter -t "$(pid_of node1)" -n -- ip link del "to-$NODE" 2> /dev/null || true
	stop "$NODE" KILL
	for c in $NODE_COMPONENTS; do rm -f "$PIDS/$(component "$c").pid"; done
	remove_loops
	[ "$NODE" = node1 ] || remove_cgroups "flex-$NODE"
}

# remove_loops frees the loop devices of the node's imitated iSCSI sessions, which outlive the processes that made them.
# Their file is in a mount that is gone, which shows as /.
remove_loops() {
	local f loop
	for f in "$NODE_RUN"/iscsi/*/loop; do
		[ -e "$f" ] || continue
		loop=$(cat "$f")
		case $(cat "/sys/block/${loop#/dev/}/loop/backing_file" 2>/dev/null) in
		/ | "$NODE_RUN"/iscsi/*) losetup -d "$loop" || true ;;
		esac
	done
}

remove_cgroups() { # NAME
	local d
	for d in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
		[ ! -d "$d" ] || until_ok 10 remove_cgroup "$d" || die "cgroup $d still has processes"
	done
}
# A cgroup stays busy for a moment after its last process was killed.
remove_cgroup() { find "$1" -depth -type d -exec rmdir {} \; && [ ! -d "$1" ]; }

# iscsi_node gives the node's mount namespace a /dev/disk and a /sys/class that standin/iscsi/iscsiadm may write to.
iscsi_node() {
	make_dirs /dev/disk
	inside bash -eu -s "$NODE_STATE/sysclass" <<-'N'
	mount -t tmpfs -o mode=755 tmpfs /dev/disk
	mkdir -p /dev/disk/by-path "$1"
	mount -t tmpfs -o mode=755 tmpfs "$1"
	for class in /sys/class/*; do
		mkdir "$1/${class##*/}"
		mount --bind "$class" "$1/${class##*/}"
	done
	mkdir -p "$1"/iscsi_host "$1"/scsi_host
	mount --rbind "$1" /sys/class
	N
}

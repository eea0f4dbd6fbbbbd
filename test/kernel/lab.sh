#!/bin/bash
# lab.sh [CASE...]: a cluster whose nodes have kernels of their own, by Debian's user-mode Linux, and whose control plane
# runs on this machine, in a network namespace; and a machine with storage. Runs cases of lab/cases, by default those
# that were seen to pass.
# Settings, from the environment:
#   KEEP=1          the lab stays, and the next call uses it
#   DOWN=1          a lab that stayed is stopped, and nothing else is done
#   SECONDS_OF_LOAD=600   how long two nodes write to one volume
set -euo pipefail
# shellcheck source=lab/lib.sh
. "$(dirname "$0")/lab/lib.sh"
cd "$REPO"
CASES=(cluster)

prepare() {
	"$HERE/packages.sh" busybox-static curl e2fsprogs gcc iproute2 jq kmod libc6-dev libseccomp-dev lvm2 nftables openssl \
		pkg-config python3-cinder python3-rtslib-fb socat util-linux
	"$HERE/build.sh" kubernetes
	"$HERE/build.sh" runtime
	"$HERE/pki.sh"
	BUILD=$("$LAB/build.sh")
}

# disk makes a disk with the images in containerd's folder, of which each node has a copy.
disk() {
	local file=$STATE/disk.img CMD image pid
	truncate -s 4G "$file"
	mkfs.ext4 -q "$file"
	write_configs
	mkdir -p "$NODE_STATE/containerd"
	mount -o loop "$file" "$NODE_STATE/containerd"
	containerd_command
	"${CMD[@]}" > "$LOG/disk.log" 2>&1 &
	pid=$!
	until_ok 60 "$BIN/ctr" -a "$NODE_RUN/containerd.sock" version || die "containerd did not start: see $LOG/disk.log"
	for image in "$BIN"/images/*.tar "${IMAGES[@]/#/bin/images/}"; do
		"$BIN/ctr" -a "$NODE_RUN/containerd.sock" -n k8s.io images import --local "${image%.tar}.tar"
	done > "$LOG/import.log" 2>&1
	kill "$pid"
	wait "$pid" || true
	sync -f "$NODE_STATE/containerd" # some other mount namespace may still have it
	umount "$NODE_STATE/containerd"
}

# namespaces makes node1, with whose process 1 all others end: the networks of the lab, and the address of the service
# "kubernetes", since no kube-proxy runs.
namespaces() {
	local unshare
	setsid unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
		bash -c 'trap "" HUP INT TERM; while :; do sleep 3600 & wait $!; done' > "$LOG/node1.log" 2>&1 < /dev/null &
	unshare=$!
	disown
	until_ok 5 has_begun "$unshare" || die "could not make namespaces: see $LOG/node1.log"
	record node1 "$(child_of "$unshare")"
	inside bash -eu -s "$NODE1_IP" "$SECOND_NET" <<-'N'
	ip link set lo up
	ip addr add 10.96.0.1/32 dev lo
	ip link add net0 type bridge
	ip link add net1 type bridge
	ip addr add "$1/24" dev net0
	ip addr add "$2.1/24" dev net1
	ip link set net0 up
	ip link set net1 up
	for i in 2 3 4 5; do ip route add "10.244.$((i - 1)).0/24" via "10.99.0.$i"; done
	echo 1 > /proc/sys/net/ipv4/ip_forward
	nft -f - <<-T
	table ip service {
	  chain prerouting {
	    type nat hook prerouting priority dstnat;
	    ip daddr 10.96.0.1 tcp dport 443 dnat to $1:6443
	  }
	}
	T
	N
}
# Until its shell runs the child has not mounted its own /proc.
has_begun() { [ "$(cat "/proc/$(child_of "$1")/comm")" = bash ]; }

# control starts a component of the control plane. It goes before the machines in the kernel's queues: where it waits
# for them, its leases end.
control() {
	local CMD
	"${1//-/_}_command"
	[ "$1" != kube-controller-manager ] || CMD+=(--node-monitor-grace-period=120s)
	spawn "$1" nice -n -10 "${CMD[@]}"
}

bring_up() {
	local c node began
	began=$(now)
	prepare
	take_down
	mkdir -p "$PIDS" "$STATE" "$LOG"
	rm -f "$LOG"/*
	disk
	say "the images are unpacked, $(since "$began") after the start"
	namespaces
	for node in $NODES_OF_LAB; do boot "$node" 3G node; done
	boot "$STORAGE" 3G storage
	for c in $CONTROL_PLANE; do
		control "$c"
		wait_healthy "$c"
	done
	say "the control plane runs, $(since "$began") after the start"
	for node in $NODES_OF_LAB; do
		until_ok 60 kubectl wait --for=condition=Ready --timeout=10s "node/$node" ||
			die "$node did not become ready: see $LOG/$node.log"
		say "$node is ready, $(since "$began") after the start"
	done
}

take_down() {
	stop node1 KILL
	rm -rf --one-file-system "$STATE" "$RUN"
}

run_cases() {
	local case began passed=0 failed=''
	for case; do
		began=$(now)
		echo "=== $case"
		if bash "$LAB/lab/cases/$case.sh" 2>&1; then
			echo "--- $case passed in $(since "$began")"
			passed=$((passed + 1))
		else
			echo "--- $case FAILED in $(since "$began")"
			failed+=" $case"
		fi
	done
	[ -z "$failed" ] || die "failed:$failed"
	say "all $passed cases passed"
}

main() {
	need_root
	on node1
	[ "${DOWN:-0}" = 0 ] || { take_down && exit; }
	[ "${KEEP:-0}" = 1 ] || trap take_down EXIT
	alive node1 || bring_up
	[ $# -gt 0 ] || set -- "${CASES[@]}"
	run_cases "$@"
}
main "$@"

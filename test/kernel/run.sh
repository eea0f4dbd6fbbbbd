#!/bin/bash
# run.sh [CASE...]: boots Debian's kernel in two virtual machines, node1 and node2, and runs the cases, by default all
# of cases/. Settings, from the environment:
#   KEEP=1          the machines stay, with a root shell: socat STDIO,raw,echo=0 UNIX-CONNECT:bin/kernel/node1.shell
#   LIMIT=3600      seconds after which the machines are stopped
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

# boot NODE MEMORY SERVER: starts the node's machine, whose console is a file, with a cable to the other one.
boot() {
	local node=$1 append=(console=ttyS0 quiet panic=-1 random.trust_cpu=on mitigations=off net.ifnames=0)
	append+=("REPO=$REPO" "NODE=$node" ROLE=case "CASES=$CASES" "KEEP=${KEEP:-0}")
	nice -n 10 timeout "${LIMIT:-3600}" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "$2" -no-reboot \
		-netdev "stream,id=cable,server=$3,addr.type=unix,addr.path=$OUT/cable" \
		-device "virtio-net-pci,netdev=cable,mac=52:54:00:00:00:0${node#node}" \
		-display none -monitor none -serial "file:$OUT/$node.log" -serial "unix:$OUT/$node.shell,server=on,wait=off" \
		-kernel "$BUILD/vmlinuz" -initrd "$BUILD/initrd.gz" -append "${append[*]}" \
		-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap \
		-virtfs local,path="$BUILD/root",mount_tag=lab,security_model=none,readonly=on \
		> "$OUT/$node.qemu" 2>&1 &
	echo $! > "$OUT/$node.pid"
}

stop_all() {
	local pid
	for pid in "$OUT"/*.pid; do kill "$(cat "$pid")" 2> /dev/null || true; done
}

main() {
	local began follower machine
	need_root
	began=$(now)
	CASES=$(IFS=,; echo "$*")
	mkdir -p "$OUT"
	rm -f "$OUT"/*
	"$LAB/../cluster/packages.sh" qemu-system-x86 socat
	BUILD=$("$LAB/build.sh")
	trap stop_all EXIT
	boot node1 3072 on
	machine=$(cat "$OUT/node1.pid")
	until_ok 10 test -S "$OUT/cable" || { cat "$OUT/node1.qemu" >&2; die "the machine did not start"; }
	boot node2 2048 off
	touch "$OUT/node1.log"
	tail -n +1 -f "$OUT/node1.log" --pid "$machine" &
	follower=$!
	wait "$machine" || die "node1's machine did not end by itself: see $OUT/node1.log"
	wait "$follower" || true
	say "took $(since "$began")"
	grep -q '^kernel: all [0-9]* cases passed' "$OUT/node1.log" || die "failed: see $OUT/node1.log"
}
main "$@"

# shellcheck shell=bash disable=SC2034 # the names are for the scripts that source this
# Paths and addresses of the lab with a real kernel. Sourced by the scripts beside it, on this machine and in the
# virtual ones.

# shellcheck source=../cluster/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../cluster/lib.sh"
LAB=$REPO/test/kernel
OUT=$REPO/bin/kernel # consoles and sockets of the virtual machines
NODE1=10.98.0.1
NODE2=10.98.0.2
SHELL_PORT=2222      # of node2, for the cases, and of all machines of the lab

# machine_command NODE MEMORY SETTING...: sets CMD to what runs a virtual machine with Debian's kernel, whose console is a
# file. Settings are variables of guest.sh. BUILD is what build.sh printed. Its network is the caller's.
machine_command() {
	local node=$1 memory=$2 append
	shift 2
	append=(console=ttyS0 quiet panic=-1 nowatchdog random.trust_cpu=on mitigations=off net.ifnames=0
		"REPO=$REPO" "NODE=$node" "KEEP=${KEEP:-0}" "$@")
	CMD=(qemu-system-x86_64 -accel "tcg,thread=multi" -cpu max -smp "${SMP:-2}" -m "$memory" -no-reboot
		-display none -monitor none -serial "file:$OUT/$node.log" -serial "unix:$OUT/$node.shell,server=on,wait=off"
		-kernel "$BUILD/vmlinuz" -initrd "$BUILD/initrd.gz" -append "${append[*]}"
		-virtfs "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"
		-virtfs "local,path=$BUILD/root,mount_tag=lab,security_model=none,readonly=on")
}

say() { echo "kernel: $*"; }
die() { echo "kernel: $*" >&2; exit 1; }

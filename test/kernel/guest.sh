#!/bin/bash
# Process 1 of a virtual machine, once it has its root: loads the modules and starts initiators. ROLE says what else:
#   case      node1 starts an NFS server, runs the cases and powers off
#   node      the machine becomes a node of the lab's cluster: lab/node.sh
#   storage   it becomes the lab's storage: lab/storage.sh
# REPO, NODE, ROLE, CASES and KEEP come from the kernel's command line.
set -euo pipefail
trap '[ "${KEEP:-0}" = 0 ] || sleep infinity; sync; echo o > /proc/sysrq-trigger; sleep 60' EXIT
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export SLOW=10
cd "$REPO"
# shellcheck source=lib.sh
. test/kernel/lib.sh
NET=10.98.0
# shellcheck source=lab/node.sh
[ "$ROLE" = case ] || { NET=10.99.0 && . "test/kernel/lab/$ROLE.sh"; }

stage() { say "$1, $(cut -d' ' -f1 /proc/uptime) s after the start of $NODE"; }

modules() {
	mkdir -p /etc/target # for LIO
	modprobe -a configfs nf_tables loop ext4 iscsi_tcp sd_mod dm_multipath target_core_mod iscsi_target_mod \
		target_core_file nfs nfsv4 nfsd
	[ "$ROLE" != case ] || modprobe -a nvme_tcp nvmet_tcp
}

file_systems() {
	mount -t tmpfs tmpfs /run
	mount -t tmpfs tmpfs /tmp
	mkdir -p /dev/shm /dev/pts /run/lock
	ln -sf /proc/self/fd /dev/fd
	mount -t tmpfs tmpfs /dev/shm
	mount -t devpts devpts /dev/pts
	mount -t cgroup2 cgroup2 /sys/fs/cgroup
	mount -t configfs configfs /sys/kernel/config
}

network() {
	local card
	ip link set lo up
	for card in 0 1; do [ ! -e "/sys/class/net/vec$card" ] || ip link set "vec$card" name "eth$card"; done
	ip link set eth0 up
	ip addr add "$NET.${NODE#node}/24" dev eth0
	[ "$ROLE" != case ] || return 0
	ip link set eth1 up
	ip addr add "$SECOND_NET.${NODE#node}/24" dev eth1
	ip route add default via "$NODE1_IP"
}

# initiator starts what a node has for iSCSI and several paths, with the initiator name of the node.
initiator() {
	mkdir -p /etc/iscsi /run/lock/iscsi /var/lib/iscsi
	echo "InitiatorName=iqn.2026-01.io.flex-provisioner:$NODE" > /etc/iscsi/initiatorname.iscsi
	# As the documentation of multipath asks for: a path that is gone fails soon, and the others go on.
	sed -i '/^node.session.timeo.replacement_timeout/d' /etc/iscsi/iscsid.conf
	echo 'node.session.timeo.replacement_timeout = 5' >> /etc/iscsi/iscsid.conf
	cat > /etc/multipath.conf <<-C
	defaults {
	  user_friendly_names yes
	  find_multipaths no
	  polling_interval 2
	}
	C
	SYSTEMD_LOG_LEVEL=err /lib/systemd/systemd-udevd --daemon
	udevadm trigger --action=add --subsystem-match=block
	udevadm settle
	iscsid
	multipathd
}

# nfs_server exports two file systems: one where root is root, and one where it is nobody. The root of the export is a
# tmpfs with the same names, since that of the machine is an overlay, which the kernel cannot export.
nfs_server() {
	local name
	mkdir -p /export /var/lib/nfs/v4recovery
	mount -t tmpfs tmpfs /export
	for name in nfs squashed; do
		truncate -s 128M "/run/$name.img"
		mkfs.ext4 -q "/run/$name.img"
		mkdir -p "/srv/$name" "/export/srv/$name"
		mount -o loop "/run/$name.img" "/srv/$name"
		rmdir "/srv/$name/lost+found"
		mount --bind "/srv/$name" "/export/srv/$name"
	done
	chown 65534:65534 /srv/squashed
	printf '/export/%s %s.0/24(sync,no_subtree_check,%s)\n' \
		'' "$NET" ro,fsid=0 srv/nfs "$NET" rw,no_root_squash srv/squashed "$NET" rw,root_squash > /etc/exports
	touch /var/lib/nfs/{etab,rmtab,state}
	mount -t nfsd nfsd /proc/fs/nfsd
	exportfs -a
	rpc.mountd -N 3
	rpc.nfsd -N 3 --grace-time 10 --lease-time 10 4
}

# cases prints the names of those that are to run.
cases() {
	if [ -n "$CASES" ]; then
		echo "${CASES//,/ }"
	else
		(cd "$LAB/cases" && basename -s .sh -- *.sh)
	fi
}

run_cases() {
	local case began passed=0 failed=''
	for case in $(cases); do
		began=$(now)
		echo "=== $case"
		if bash "$LAB/cases/$case.sh" 2>&1; then
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

# serve_shell runs commands for the cases, which run elsewhere.
serve_shell() { socat -t 1200 "TCP-LISTEN:$SHELL_PORT,bind=$NET.${NODE#node},fork,reuseaddr" EXEC:bash; }

main() {
	stage "Linux $(uname -r)"
	hostname "$NODE"
	modules
	file_systems
	network
	initiator
	if [ "$ROLE" != case ]; then
		start_role
		serve_shell
	elif [ "$NODE" = node1 ]; then
		nfs_server
		stage "initiators and servers run"
		run_cases
	else
		stage "initiators run"
		serve_shell
	fi
}
[ "$KEEP" = 0 ] || { setsid bash -c 'while :; do bash -i; sleep 1; done' < /dev/ttyS1 > /dev/ttyS1 2>&1 & }
main

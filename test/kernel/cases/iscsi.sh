#!/bin/bash
# The kernel's initiator and the kernel's target, LIO, with the very values that the image's mapper writes for a
# connection with CHAP and two portals, by the steps of the kubelet: the initiator name of the volume, who is let in,
# one disk of two paths by multipathd, and one portal that is pulled while data is written.
# shellcheck source=../case.sh
. "$(dirname "$0")/../case.sh"
read -r -d '' password user initiator iqn volume main < <(golden iscsi-multipath node.session.auth.password: \
	node.session.auth.username: initiatorName: iqn: name: targetPortal:) || true
other=$(golden iscsi-multipath -)
[ -n "$main$other" ] || die "the mapper's tests have no case iscsi-multipath"
echo "volume: $iqn at $main and $other, initiator $initiator"
for portal in "$main" "$other"; do ip addr add "${portal%:*}/32" dev lo; done
lio "$iqn" "$main" "$other"
lio_host "$iqn" "$initiator" "$user" "$password"

# refused [PASSWORD] prints the exit code of a login: 24 is an authentication failure.
refused() {
	(
		set -e
		log_in "$main" "$iqn" refused "$initiator" ${1:+"$user" "$1"} >&2
	)
	echo $?
	iscsiadm -m node -p "$main" -T "$iqn" -o delete > /dev/null 2>&1
	iscsiadm -m iface -I "$main:refused" -o delete > /dev/null 2>&1
}
is "exit code of a login without CHAP" 24 "$(refused)"
is "exit code of a login with another password" 24 "$(refused another-secret)"

for portal in "$main" "$other"; do log_in "$portal" "$iqn" "$volume" "$initiator" "$user" "$password"; done
iscsiadm -m session -P 3 | grep -E 'Target:|Initiatorname|Current Portal|username:|scsi disk'
is "sessions" 2 "$(sessions "$iqn")"
is "the kernel's name of the initiator" "$initiator" "$(cat /sys/class/iscsi_session/session*/initiatorname | sort -u)"
is "the kernel's CHAP user" "$user" "$(cat /sys/class/iscsi_session/session*/username | sort -u)"
for portal in "$main" "$other"; do
	eventually 10 "disk by path" '/dev/sd?' readlink -e "/dev/disk/by-path/ip-$portal-iscsi-$iqn-lun-1"
done
eventually 10 "paths" 2 paths active
multipathd show paths
disk=/dev/mapper/$(multipath -ll | awk '{print $1; exit}')
mkfs.ext4 -q "$disk"
mkdir -p /run/iscsi
mount "$disk" /run/iscsi

# Each line is on the disk before the next one.
(i=0; while [ ! -e /run/stop ]; do i=$((i + 1)); echo "line $i"; sync -f /run/iscsi; done > /run/iscsi/lines) &
writer=$!
lines() { wc -l < /run/iscsi/lines; }
more_than() { [ "$(lines)" -gt "$1" ]; }
until_ok 30 more_than 20 || true
before=$(lines)
began=$(now)
pull "${other%:*}"
eventually 30 "paths once a portal is silent" 1 paths active
echo "the path was given up after $(since "$began")"
until_ok 30 more_than $((before + 100)) || true
after=$(lines)
is "lines written, $before before and $after after" yes "$([ "$after" -ge $((before + 100)) ] && echo yes || echo no)"
plug
eventually 60 "paths once it answers again" 2 paths active
touch /run/stop
wait "$writer"
total=$(lines)
umount /run/iscsi
fsck=0
e2fsck -fn "$disk" > /dev/null 2>&1 || fsck=$?
is "exit code of e2fsck" 0 "$fsck"
mount -o ro "$disk" /run/iscsi
is "lines in their order after a new mount" "$total" "$(awk '$2 != NR {exit} END {print NR}' /run/iscsi/lines)"
umount /run/iscsi
multipath -f "$(basename "$disk")"
for portal in "$main" "$other"; do log_out "$portal" "$iqn" "$volume"; done
is "sessions at the end" 0 "$(sessions "$iqn")"
lio_gone "$iqn"
for portal in "$main" "$other"; do ip addr del "${portal%:*}/32" dev lo; done

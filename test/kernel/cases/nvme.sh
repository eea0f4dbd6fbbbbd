#!/bin/bash
# NVMe over TCP by the kernel's own target and initiator, with the very attributes that the image's mapper writes into
# a volume for csi-driver-nvmf. The driver is not here: nvme connects as it does.
# shellcheck source=../case.sh
. "$(dirname "$0")/../case.sh"

read -r -d '' uuid id host nqn address port transport < <(golden nvme-1 \
	deviceUUID: hostId: hostNqn: nqn: targetTrAddr: targetTrPort: targetTrType:) || true
[ -n "$transport" ] || die "the mapper's tests have no case nvme-1"
echo "attributes: $transport $address:$port $nqn, disk $uuid, host $host $id"

# target has a subsystem for the volume, as Cinder's has, and lets one host in.
target() {
	local root=/sys/kernel/config/nvmet
	local subsystem=$root/subsystems/$nqn
	ip addr add "$address/32" dev lo
	truncate -s 64M /run/nvme.img
	mkdir -p "$subsystem" "$subsystem/namespaces/10" "$root/hosts/$host" "$root/ports/1"
	losetup -f --show /run/nvme.img > "$subsystem/namespaces/10/device_path"
	echo "$uuid" > "$subsystem/namespaces/10/device_uuid"
	echo 1 > "$subsystem/namespaces/10/enable"
	ln -s "$root/hosts/$host" "$subsystem/allowed_hosts/"
	echo "$transport" > "$root/ports/1/addr_trtype"
	echo ipv4 > "$root/ports/1/addr_adrfam"
	echo "$address" > "$root/ports/1/addr_traddr"
	echo "$port" > "$root/ports/1/addr_trsvcid"
	ln -s "$subsystem" "$root/ports/1/subsystems/"
}
connect() { nvme connect -t "$transport" -a "$address" -s "$port" -n "$nqn" -q "$1" -I "$2" 2>&1; }
# disk prints the disk by the name that udev gives it, by which the driver looks for it.
disk() { readlink -e "/dev/disk/by-id/nvme-uuid.$uuid" || true; }

target
code=0
stranger=00000000-0000-4000-8000-000000000000
connect "nqn.2014-08.org.nvmexpress:uuid:$stranger" "$stranger" || code=$?
is "exit code for a host that is not in the attributes" '[1-9]*' "$code"
connect "$host" "$id"
eventually 10 "the disk with the volume's UUID" '/dev/nvme*n*' disk
is "the host's name in the target" "$host" "$(cat /sys/class/nvme/nvme*/hostnqn)"
mkfs.ext4 -q "$(disk)"
mkdir -p /run/nvme
mount "$(disk)" /run/nvme
echo "written through the kernel" > /run/nvme/file
umount /run/nvme
is "the data in the target's file" 1 "$(grep -c -a "written through the kernel" /run/nvme.img)"
nvme disconnect -n "$nqn"
eventually 10 "disks after the disconnect" '' disk

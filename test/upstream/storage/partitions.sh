# shellcheck shell=bash
# A loop device of node1 is the disk. A loop does for its partitions what udev does on other nodes.
node() { echo node1; }

up() {
	local device
	down
	test/cluster/packages.sh fdisk
	truncate -s 8G "$DIR/disk"
	printf 'label: gpt\nlabel-id: 8d3f2a60-6c1e-4f5b-9b0d-2f6c1f7a9e01\n' | sfdisk --quiet "$DIR/disk"
	device=$(losetup -f --show "$DIR/disk")
	echo "$device" > "$DIR/device"
	# shellcheck disable=SC2016 # the node's shell expands it
	start sh -c 'mkdir -p /dev/disk/by-partuuid
		while :; do
			partx --show --noheadings --output NR,UUID "$0" 2> /dev/null | while read -r number uuid; do
				[ ! -b "$0p$number" ] || ln -sfn "$0p$number" "/dev/disk/by-partuuid/$uuid"
			done
			sleep 0.2
		done' "$device"
}

down() {
	stop
	losetup -j "$DIR/disk" 2> /dev/null | cut -d : -f 1 | xargs -r losetup -d
	rm -f "$DIR/disk" "$DIR/device"
	on_node node1 "rm -rf /dev/disk/by-partuuid /var/lib/flex-partitions"
}

edit() { sed "s#/dev/disk/by-id/THE-DISK#$(cat "$DIR/device")#; s/THE-NODE/node1/"; }

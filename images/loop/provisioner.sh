#!/bin/sh
# Images of file systems and raw devices, which flex-node mounts (docs/node.md): ROOT/VOLUME/image, on the disks of
# nodes or on an NFS export. Properties: root, where the pod has the storage; directory, where flex-node has it (its
# --directory), root if not given; export, nfs://SERVER/DIRECTORY, if it is one: else a volume is on the node where it
# was made; driver, the name of flex-node's driver if it has another.
#
# The space of an image is allocated when it is made. A snapshot or clone is a copy that shares the data (reflink), so
# it has the image of one moment, as after a power failure.
#
# The mark of a volume is made before its folder and removed after it. It proves that the folder is ours. The directory
# of the marks proves that the root is a disk or an export, and not its empty mount point, and the file
# .flex-provisioner.id beside it that it is the one on which the volume was made. A folder is removed by its rename, so
# it is never there in part.
set -eu

: "${DIRECTORY:=${ROOT-}}" "${EXPORT:=}" "${DRIVER:=dispatcher.flex-provisioner.io}"
case ${ROOT-} in
'') flexctl fail --refuse 'property "root" is missing: name the directory of the pod that has the storage' ;;
[!/]* | *[!A-Za-z0-9._/-]* | */../* | */..) flexctl fail --refuse "property \"root\" is \"$ROOT\": write an absolute path of letters, digits, '.', '_' and '-'" ;;
esac
case $DIRECTORY in
[!/]* | *[!A-Za-z0-9._/-]*) flexctl fail --refuse "property \"directory\" is \"$DIRECTORY\": write a path that flex-node has as --directory" ;;
esac
case $DRIVER in
*[!A-Za-z0-9.-]*) flexctl fail --refuse "property \"driver\" is \"$DRIVER\": write the name of flex-node's driver" ;;
esac
host=$FLEX_NODE base=$ROOT at="node $FLEX_NODE" affinity=self
case $EXPORT in
'') ;;
nfs://?*/*) host=${EXPORT#nfs://} base=/${host#*/} host=${host%%/*} at=$EXPORT affinity='' ;;
*) flexctl fail --refuse "property \"export\" is \"$EXPORT\": write nfs://SERVER/DIRECTORY" ;;
esac
flexctl require root --optional directory,export,driver,smartclone

marks=$ROOT/.flex-provisioner
if [ "$FLEX_OPERATION" = list ]; then
	[ -d "$marks" ] || flexctl fail --not-here "$at has no $base/.flex-provisioner: nothing was made, or it is not mounted"
	for mark in "$marks"/pvc-*; do
		[ -e "$mark" ] || continue
		echo "storage ${mark##*/} ssh $host rm -rf -- ${base%/}/${mark##*/} ${base%/}/.flex-provisioner/${mark##*/}"
	done
	exit
fi
snapshot=${FLEX_SNAPSHOT_NAME-}${FLEX_SOURCE_SNAPSHOT-}
case $FLEX_OPERATION,$snapshot in
*snapshot, | *,[!A-Za-z0-9]* | *,*[!A-Za-z0-9._-]*) flexctl fail --refuse "\"$snapshot\" is no name of a snapshot" ;;
esac
# No record may say which volume a snapshot is of.
[ "$FLEX_OPERATION,$FLEX_PV_NAME" = delete-snapshot, ] ||
	expr "$FLEX_PV_NAME" : 'pvc-[0-9a-f]\{8\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}$' >/dev/null ||
	flexctl fail --refuse "\"$FLEX_PV_NAME\" is no name of a volume, pvc-UID"
[ -z "$EXPORT" ] || flexctl require --mounted "$ROOT=$EXPORT"

snapshots=$marks/snapshots mark=$marks/$FLEX_PV_NAME dir=$ROOT/$FLEX_PV_NAME
size=$(((FLEX_SIZE_BYTES + 1048575) / 1048576 * 1048576)) # whole sectors, and blocks of every file system

# there ends the script unless the volume is here.
there() {
	if [ ! -d "$mark" ] || [ ! -f "$dir/image" ]; then
		flexctl fail "volume $FLEX_PV_NAME is not in $base on $at; is that mounted?"
	fi
	flexctl require --mark "$marks"
}

missing() { # how many bytes the image has less than its size
	has=$(stat -c %s -- "$dir/image" 2>/dev/null || echo 0)
	echo $((size > has ? size - has : 0))
}

# grow allocates what is missing alone. Where a file system cannot allocate, zeros are written, and the rest is in use.
grow() {
	more=$(missing)
	[ "$more" = 0 ] || fallocate -o $((size - more)) -l "$more" "$dir/image"
}

room() { df -Pk -- "$ROOT" | awk 'END { printf "%.0f", $4 * 1024 }'; }

# copy shares the data of a folder that has an image. A third argument is how it fails. What it is interrupted in is
# removed with the volume or snapshot.
copy() {
	code=0
	flexctl copy -- "$1" "$2" || code=$?
	[ "$code" != 64 ] || flexctl fail ${3:+"$3"} "the file system of $base on $at cannot share data between files, as XFS and btrfs can"
	[ "$code" = 0 ] || exit "$code"
}

# remove removes a folder and what is left of its copies.
remove() {
	[ ! -e "$1" ] || mv -T -- "$1" "${1%/*}/.${1##*/}.copy-removed" || [ ! -e "$1" ]
	rm -rf -- "${1%/*}/.${1##*/}".copy-*
}

case $FLEX_OPERATION in
provision)
	[ -d "$ROOT" ] || flexctl fail --not-here "$at has no directory $base; does key \"host-path\" or \"mount-claims\" name it?"
	source=''
	[ -z "${FLEX_SOURCE_PV_NAME-}" ] || source=$ROOT/$FLEX_SOURCE_PV_NAME
	[ -z "$snapshot" ] || source=$snapshots/$snapshot
	# Before anything is made.
	[ -z "$source" ] || [ -d "$dir" ] || [ -f "$source/image" ] || flexctl fail --not-here "${source##*/} is not in $base on $at"
	[ ! -e "$dir" ] || [ -d "$mark" ] || flexctl fail "$base/$FLEX_PV_NAME on $at is not ours; move it out of the way"
	free=$(room) more=$(missing)
	[ -d "$mark" ] || [ -n "$source" ] || [ "$free" -ge "$more" ] ||
		flexctl fail --not-here "$base on $at has room for $((free / 1048576))Mi, and the claim asks for $((size / 1048576))Mi"
	[ -d "$marks" ] || mkdir -m 0711 -- "$marks" 2>/dev/null || [ -d "$marks" ]
	flexctl require --mark "$marks"
	mkdir -p -- "$mark"
	[ -z "$source" ] || [ -d "$dir" ] || copy "$source" "$dir"
	[ -d "$dir" ] || mkdir -m 0700 -- "$dir" 2>/dev/null || [ -d "$dir" ]
	grow || flexctl fail "$base on $at has no room for $((size / 1048576))Mi"
	chmod 0600 -- "$dir/image"
	echo "csi: {driver: $DRIVER, volumeHandle: $FLEX_PV_NAME, volumeAttributes: {stager: loop, directory: \"$DIRECTORY\"}}" |
		flexctl create-pv ${affinity:+--node-affinity "$affinity"}
	;;
expand)
	there
	free=$(room) more=$(missing)
	[ "$free" -ge "$more" ] ||
		flexctl fail --refuse "$base on $at has room for $((free / 1048576))Mi more, and the claim asks for $((more / 1048576))Mi more"
	grow
	;;
snapshot)
	there
	[ -d "$snapshots" ] || mkdir -m 0700 -- "$snapshots" 2>/dev/null || [ -d "$snapshots" ]
	copy "$dir" "$snapshots/$snapshot" --refuse
	;;
delete-snapshot)
	volume=$(flexctl volume metadata.name) # empty if no record says which volume it is of
	[ -d "$marks" ] || flexctl fail --try-again "$base on $at has no .flex-provisioner; is it mounted?"
	flexctl require --mark "$marks"
	[ -n "$volume" ] || [ -n "$EXPORT" ] || [ -e "$snapshots/$snapshot" ] ||
		flexctl fail --not-here "snapshot $snapshot is not on $at, and no record says on which node it is"
	remove "$snapshots/$snapshot"
	;;
delete)
	volume=$(flexctl volume metadata.name) # empty for an undo
	[ -d "$ROOT" ] || flexctl fail --try-again "$at has no directory $base; is it mounted?"
	# An undo may come before the first mark.
	[ -d "$marks" ] || [ -z "$volume" ] || flexctl fail --try-again "$base on $at has no .flex-provisioner; is it mounted?"
	flexctl require --mark "$marks"
	if [ -d "$mark" ]; then
		remove "$dir"
		rm -rf -- "$mark" || [ ! -e "$mark" ]
	elif [ -n "$volume" ] && [ -e "$dir" ]; then # an undo leaves what is not ours alone
		flexctl fail "$base/$FLEX_PV_NAME on $at has no mark, so it is not removed; remove it by hand"
	fi
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

#!/bin/sh
# Directories of a node as volumes. Properties: root, the directory of the node that they lie in and that the class's key
# host-path mounts at the same path, or several with spaces between them, whose parent it mounts; mode and owner (UID:GID),
# theirs, 0777 and the pod's user if not given. Sizes are not enforced: expanding a volume changes a number only.
# path-pattern, such as ${.PVC.namespace}.${.PVC.name}, names the directories (flexctl dirname --help), which else have the
# name of their volume; keep-on-delete, "true" keeps a directory for the next claim of the same name; snapshot-copy, "full"
# lets snapshots copy all data where it cannot be shared.
#
# Of several roots a node may have some. A volume is made in that with the most free space, unless one has something of it
# already, and is found again by its path, by the ID of the disk or by its mark.
#
# The mark of a volume is made before its directory and removed after it, out of the reach of pods. It proves that a
# directory is ours. The directory of the marks proves that the root is a disk, and not its empty mount point, and the file
# .flex-provisioner.id beside it that it is the disk on which the volume was made.
#
# With path-pattern the directory has a readable name, and the mark the link "name" to it. The link names/NAME, which one
# volume can make, holds the directory for the volume until it is removed. With keep-on-delete it stays, and the link
# kept/NAME holds it for the claim of one namespace and name.
#
# A snapshot is a copy of a volume's directory in snapshots/, beside the marks. flexctl copy gives it its name when it is
# whole. A restored directory is copied below its mark, and moved to its place after the directory "restored" was made: so
# a directory without that is none that was restored.
set -eu

: "${MODE:=0777}" "${OWNER:=}" "${PATH_PATTERN:=}" "${KEEP_ON_DELETE:=false}" "${SNAPSHOT_COPY:=}"
ROOTS=${ROOT-}
case " $ROOTS " in
*[!\ ]*) ;;
*) flexctl fail --refuse 'property "root" is missing: name a directory of the node, the same as in key "host-path"' ;;
esac
case " $ROOTS " in
*' '[!/\ ]* | *[!A-Za-z0-9._/\ -]* | */../* | */..' '*) flexctl fail --refuse "property \"root\" is \"$ROOTS\": write an absolute path of letters, digits, '.', '_' and '-', or several with spaces between them" ;;
esac
slashed='' either='' here='' # here are those that the node has
for ROOT in $ROOTS; do
	slashed="$slashed $ROOT/"
	either=${either:+$either or }$ROOT
	[ ! -d "$ROOT" ] || here=${here:+$here }$ROOT
done
for ROOT in $ROOTS; do
	# Pods write below a root, and would make the one that lies there.
	case $slashed in
	*" $ROOT/"*" $ROOT/"*) flexctl fail --refuse "property \"root\" is \"$ROOTS\", and one directory is or contains another one: name directories that lie beside each other" ;;
	esac
done
case $KEEP_ON_DELETE,$PATH_PATTERN in
false,* | true,?*) ;;
true,) flexctl fail --refuse 'property "keep-on-delete" needs "path-pattern"' ;;
*) flexctl fail --refuse "property \"keep-on-delete\" is \"$KEEP_ON_DELETE\": write \"true\" or \"false\"" ;;
esac
case $SNAPSHOT_COPY in
'' | full) ;;
*) flexctl fail --refuse "property \"snapshot-copy\" is \"$SNAPSHOT_COPY\": write \"full\", or leave it out" ;;
esac
expr "$MODE" : '[0-7]\{3,4\}$' >/dev/null ||
	flexctl fail --refuse "property \"mode\" is \"$MODE\": write octal digits such as 0777"
[ -z "$OWNER" ] || expr "$OWNER" : '[0-9]\{1,9\}:[0-9]\{1,9\}$' >/dev/null ||
	flexctl fail --refuse "property \"owner\" is \"$OWNER\": write a user and a group as numbers, such as 1000:1000"
flexctl require root --optional mode,owner,path-pattern,keep-on-delete,snapshot-copy
if [ "$FLEX_OPERATION" = list ]; then
	missing=''
	for ROOT in $ROOTS; do
		[ -d "$ROOT/.flex-provisioner" ] || missing=${missing:+$missing or }$ROOT/.flex-provisioner
		for mark in "$ROOT"/.flex-provisioner/pvc-*; do
			[ -e "$mark" ] || continue
			what=$ROOT/${mark##*/}
			if name=$(readlink "$mark/name"); then
				what=
				if [ "$(readlink "$ROOT/.flex-provisioner/names/$name")" = "${mark##*/}" ]; then
					what=$ROOT/.flex-provisioner/names/$name
					[ -L "$ROOT/.flex-provisioner/kept/$name" ] || what="$ROOT/$name $what"
				fi
			fi
			echo "storage ${mark##*/} ssh $FLEX_NODE rm -rf -- ${what:+$what }$mark"
		done
	done
	# Volumes of a disk that is away are not to be taken for lost.
	[ -z "$missing" ] || flexctl fail --not-here "node $FLEX_NODE has no $missing: nothing was made here, or its disk is not mounted"
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

# at goes to one of the roots.
at() {
	ROOT=$1
	marks=$ROOT/.flex-provisioner
	snapshots=$marks/snapshots
	mark=$marks/$FLEX_PV_NAME
	name=$(readlink "$mark/name") || name=$FLEX_PV_NAME
	case $name in
	*/* | .*) flexctl fail "$mark/name is no link of this provisioner: \"$name\" is no name of a directory; remove the link" ;;
	esac
	dir=$ROOT/$name
}

# having finds the roots of the node that have a path.
having() {
	found=''
	for each in $here; do
		[ ! -e "$each/$1" ] && [ ! -L "$each/$1" ] || found=${found:+$found }$each
	done
	[ -n "$found" ]
}

# located finds the root in which an earlier attempt worked. flexctl refuses to work in another one.
located() {
	found=''
	[ -n "$location" ] || return
	for each in $here; do
		! grep -qsxFe "$location" "$each/.flex-provisioner.id" || found=${found:+$found }$each
	done
	[ -n "$found" ]
}

# choose finds the root for a new volume.
choose() {
	located && return
	having ".flex-provisioner/$FLEX_PV_NAME" && return
	name=$FLEX_PV_NAME
	[ -z "$PATH_PATTERN" ] || name=$(flexctl dirname "$PATH_PATTERN")
	having ".flex-provisioner/names/$name" && return
	having "$name" && return
	[ -z "$snapshot" ] || ! having ".flex-provisioner/snapshots/$snapshot" || here=$found
	# BusyBox's df finds no mount point of a btrfs subvolume that is not mounted itself. Of one file system the first root
	# counts, so that chance does not choose.
	found=$(for each in $here; do
		echo "$(($(stat -f -c '%a * %S' "$each" || echo 0))) $(stat -c %d "$each") $each"
	done | awk '!seen[$2]++' | sort -rn | sed -n '1s/.* //p')
}

# same_node ends the script on another node than the volume's, of whose directories "not there" says nothing.
same_node() {
	node=$(flexctl volume spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.values.0)
	[ "$node" = "$FLEX_NODE" ] || flexctl fail --not-here "$1 is on node $node, and this is node $FLEX_NODE"
}

# restore makes the directory from a snapshot. It is in its place whole, or not at all.
restore() {
	if [ -d "$mark/restored" ] && [ -e "$dir" ]; then
		rm -rf -- "$mark/copy" # of an attempt beside another
		return
	fi
	[ ! -e "$dir" ] || flexctl fail "$dir on node $FLEX_NODE is kept from an earlier claim, and nothing is restored into it; move it out of the way"
	flexctl copy --full -- "$snapshots/$snapshot" "$mark/copy"
	chmod -- u+rwx "$mark/copy"
	mkdir -p -- "$mark/restored"
	[ -e "$dir" ] || mv -T -- "$mark/copy" "$dir"
}

# remove_snapshot renames it first, so that no restore begins with a part of it.
remove_snapshot() {
	rm -rf -- "$snapshots/.$snapshot".copy-*
	[ ! -e "$snapshots/$snapshot" ] || mv -T -- "$snapshots/$snapshot" "$snapshots/.$snapshot.copy-removed" || [ ! -e "$snapshots/$snapshot" ]
	rm -rf -- "$snapshots/.$snapshot".copy-*
}

location=$(flexctl request location)
path=''
[ "$FLEX_OPERATION" = provision ] || path=$(flexctl volume spec.local.path) # empty for an undo
if [ "$FLEX_OPERATION" = provision ]; then
	[ -n "$here" ] || flexctl fail --not-here "node $FLEX_NODE has no directory $either; does key \"host-path\" name it?"
	choose
elif [ -n "$path" ]; then
	found=''
	for each in $ROOTS; do
		[ "$each" != "${path%/*}" ] || found=$each
	done
	[ -n "$found" ] || flexctl fail "volume $FLEX_PV_NAME is in directory ${path%/*}, and property \"root\" is \"$ROOTS\": add the directory to it until the volume is deleted"
elif [ "$FLEX_OPERATION,$FLEX_PV_NAME" = delete-snapshot, ]; then
	having ".flex-provisioner/snapshots/$snapshot" || true
else # An undo goes first to where flexctl has to find the ID.
	located || true
	first=$found
	having ".flex-provisioner/$FLEX_PV_NAME" || true
	found=${first:+$first }$found
fi
: "${found:=${here:-$ROOTS}}"
at "${found%% *}"

case $FLEX_OPERATION in
provision)
	# What holds the name may lie elsewhere than the snapshot.
	[ -z "$snapshot" ] || [ -d "$snapshots/$snapshot" ] || ! having ".flex-provisioner/snapshots/$snapshot" ||
		snapshots=${found%% *}/.flex-provisioner/snapshots
	# Before anything is made. A directory that was restored needs it no more.
	[ -z "$snapshot" ] || [ -d "$mark/restored" ] || [ -d "$snapshots/$snapshot" ] ||
		flexctl fail --not-here "snapshot $snapshot is not on node $FLEX_NODE"
	kept='' # for whom the directory has to be kept
	[ "$KEEP_ON_DELETE" != true ] || kept=$FLEX_PVC_NAMESPACE/$FLEX_PVC_NAME
	# In this order: an attempt beside this one makes the mark, or the link, first.
	if [ -n "$PATH_PATTERN" ]; then
		# Not by a look at the link: an attempt beside this one may have made it since it was read.
		[ "$name" != "$FLEX_PV_NAME" ] || name=$(flexctl dirname "$PATH_PATTERN")
		dir=$ROOT/$name
		if [ -e "$dir" ]; then
			case $(readlink "$marks/names/$name" || true) in
			"$FLEX_PV_NAME") ;;
			'')
				[ "$(readlink "$marks/kept/$name" || echo nobody)" = "$kept" ] ||
					flexctl fail "$dir on node $FLEX_NODE is not ours, and not kept for this claim; move it out of the way"
				;;
			*) flexctl fail "$dir on node $FLEX_NODE is the directory of another volume, which has to be deleted first" ;;
			esac
		fi
	elif [ -e "$dir" ] && [ ! -d "$mark" ]; then
		flexctl fail "$dir on node $FLEX_NODE is not ours; move it out of the way"
	fi
	mkdir -p -- "$marks"
	flexctl require --mark "$marks"
	mkdir -p -- "$mark"
	if [ -n "$PATH_PATTERN" ]; then
		ln -sn -- "$name" "$mark/name" 2>/dev/null || [ "$(readlink "$mark/name")" = "$name" ] ||
			flexctl fail "another attempt named the directory of the volume otherwise than $dir on node $FLEX_NODE; the next attempt takes its name"
		mkdir -p -- "$marks/names" "$marks/kept"
		# Of two volumes one makes the link. The other one must not make, use or remove the directory.
		ln -sn -- "$FLEX_PV_NAME" "$marks/names/$name" 2>/dev/null || true
		[ "$(readlink "$marks/names/$name")" = "$FLEX_PV_NAME" ] ||
			flexctl fail "$dir on node $FLEX_NODE is the directory of another volume, which has to be deleted first"
		[ -e "$dir" ] || rm -f -- "$marks/kept/$name" # somebody removed what was kept
		[ -z "$kept" ] || ln -sn -- "$kept" "$marks/kept/$name" 2>/dev/null || true
		if [ "$(readlink "$marks/kept/$name" || true)" != "$kept" ]; then
			rm -f -- "$marks/names/$name"
			flexctl fail "$dir on node $FLEX_NODE is kept for a claim of another name; move it out of the way"
		fi
	fi
	if [ -n "$snapshot" ]; then
		restore
	else
		mkdir -p -- "$dir"
	fi
	# In this order: chown takes the setgid bit away.
	[ -z "$OWNER" ] || chown -- "$OWNER" "$dir" ||
		flexctl fail "$dir on node $FLEX_NODE cannot be given to $OWNER: the class needs run-as-user \"0\""
	chmod -- "$MODE" "$dir"
	echo "local: {path: \"$dir\"}" | flexctl create-pv --node-affinity self
	;;
expand)
	# A directory has no size of its own. That it is here is all there is to say.
	[ -d "$mark" ] || flexctl fail "$dir is not on node $FLEX_NODE; is the disk of $ROOT mounted?"
	flexctl require --mark "$marks"
	;;
snapshot)
	same_node "$dir"
	[ -d "$mark" ] || flexctl fail "$dir is not on node $FLEX_NODE; is the disk of $ROOT mounted?"
	flexctl require --mark "$marks"
	mkdir -p -- "$snapshots"
	code=0
	flexctl copy ${SNAPSHOT_COPY:+--full} -- "$dir" "$snapshots/$snapshot" || code=$?
	[ "$code" != 64 ] || flexctl fail --refuse "the file system of $ROOT on node $FLEX_NODE cannot share data between files, as XFS and btrfs can; property \"snapshot-copy\" with \"full\" allows to copy all data"
	exit "$code"
	;;
delete-snapshot)
	volume=$(flexctl volume metadata.name) # empty if no record says which volume it is of
	[ -z "$volume" ] || same_node "snapshot $snapshot"
	for ROOT in $found; do
		at "$ROOT"
		[ -d "$marks" ] || flexctl fail --try-again "$marks is not on node $FLEX_NODE; is the disk of $ROOT mounted?"
		flexctl require --mark "$marks"
		[ -n "$volume" ] || [ -e "$snapshots/$snapshot" ] || flexctl fail --not-here "snapshot $snapshot is not on node $FLEX_NODE, and no record says on which node it is"
		remove_snapshot
	done
	;;
delete)
	volume=$(flexctl volume metadata.name) # empty for an undo
	[ -z "$volume" ] || same_node "$dir"
	for ROOT in $found; do
		at "$ROOT"
		[ -d "$ROOT" ] || flexctl fail --try-again "node $FLEX_NODE has no directory $ROOT; is its disk mounted?"
		# An undo may come before the first mark.
		[ -d "$marks" ] || [ -z "$volume" ] || flexctl fail --try-again "$marks is not on node $FLEX_NODE; is the disk of $ROOT mounted?"
		flexctl require --mark "$marks"
		held=$(readlink "$marks/names/$name" || true)
		if [ -d "$mark" ]; then
			removes=true
			if [ -L "$mark/name" ]; then
				# Another volume may hold the name by now, and what is kept stays.
				[ "$held" = "$FLEX_PV_NAME" ] && [ ! -L "$marks/kept/$name" ] || removes=false
			fi
			if [ -L "$mark/name" ]; then
				# Out of the way of the next volume of the name, before anything in it is removed.
				[ "$removes" = false ] || [ ! -e "$dir" ] || mv -T -- "$dir" "$mark/data" || [ ! -e "$dir" ]
				[ "$held" != "$FLEX_PV_NAME" ] || [ -e "$dir" ] || rm -f -- "$marks/kept/$name"
				dir=$mark/data
			fi
			# BusyBox's rm fails for a directory that a delete beside this one removed meanwhile.
			rm -rf -- "$dir" || [ ! -e "$dir" ]
			[ "$(readlink "$marks/names/$name" || true)" != "$FLEX_PV_NAME" ] || rm -f -- "$marks/names/$name"
			rm -rf -- "$mark" || [ ! -e "$mark" ]
		elif [ -n "$volume" ]; then # an undo leaves what is not ours alone
			name=${path##*/} dir=$ROOT/${path##*/}
			[ ! -e "$dir" ] || [ -L "$marks/names/$name" ] || [ -L "$marks/kept/$name" ] ||
				flexctl fail "$dir on node $FLEX_NODE has no mark in $marks, so it is not removed; remove it by hand"
		fi
	done
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

#!/bin/sh
# Directories of an NFS export as volumes. Properties: server and export, as nodes mount them; mount, where the class's
# key mount-claims puts the same export here, /export if not given; mounted-export, nfs://SERVER/DIRECTORY, where the
# claim's volume names the same export in another way; archive-on-delete, "true" renames a directory to archived-NAME
# instead of removing it; mode and owner (UID:GID) of the directories, 0777 and the pod's user if not given. Sizes are not
# enforced: expanding a volume changes a number only. To remove what pods wrote as other users, and to set an owner, the
# class runs as root (run-as-user "0", a grant) and the server lets it (no_root_squash), or the server maps all users to
# one (all_squash). path-pattern, such as ${.PVC.namespace}.${.PVC.name}, names the directories (flexctl dirname --help),
# which else have the name of their volume; keep-on-delete, "true" keeps a directory for the next claim of the same name;
# snapshot-copy, "full" lets snapshots copy all data where it cannot be shared.
#
# The mark of a volume is made before its directory and removed after it, out of the reach of pods. It proves that a
# directory is ours. The directory of the marks proves that the export is mounted, and the file .flex-provisioner.id
# beside it that it is the one on which the volume was made.
#
# With path-pattern the directory has a readable name, and the mark the link "name" to it. The link names/NAME, which one
# volume can make, holds the directory for the volume until it is removed. With keep-on-delete it stays, and the link
# kept/NAME holds it for the claim of one namespace and name.
#
# A snapshot is a copy of a volume's directory in snapshots/, beside the marks. flexctl copy gives it its name when it is
# whole. A restored directory is copied below its mark, and moved to its place after the directory "restored" was made: so
# a directory without that is none that was restored.
set -eu

: "${MOUNT:=/export}" "${ARCHIVE_ON_DELETE:=false}" "${MODE:=0777}" "${OWNER:=}" "${PATH_PATTERN:=}" "${KEEP_ON_DELETE:=false}" "${SNAPSHOT_COPY:=}"
case ${SERVER-} in
'') flexctl fail --refuse 'property "server" is missing: name the NFS server' ;;
*[!][A-Za-z0-9.:-]*) flexctl fail --refuse "property \"server\" is \"$SERVER\": write a host name or an address" ;;
esac
case ${EXPORT-} in
'') flexctl fail --refuse 'property "export" is missing: name the directory that the server exports' ;;
[!/]* | *[!A-Za-z0-9._/-]*) flexctl fail --refuse "property \"export\" is \"$EXPORT\": write an absolute path of letters, digits, '.', '_' and '-'" ;;
esac
case $ARCHIVE_ON_DELETE in
true | false) ;;
*) flexctl fail --refuse "property \"archive-on-delete\" is \"$ARCHIVE_ON_DELETE\": write \"true\" or \"false\"" ;;
esac
case $KEEP_ON_DELETE,$PATH_PATTERN,$ARCHIVE_ON_DELETE in
false,* | true,?*,false) ;;
true,*) flexctl fail --refuse 'property "keep-on-delete" needs "path-pattern", and no "archive-on-delete"' ;;
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
flexctl require server export --optional mount,mounted-export,archive-on-delete,mode,owner,path-pattern,keep-on-delete,snapshot-copy
if [ "$FLEX_OPERATION" = list ]; then
	[ -d "$MOUNT/.flex-provisioner" ] || flexctl fail --not-here "$MOUNT/.flex-provisioner is not there: nothing was made, or the export $EXPORT of $SERVER is not mounted"
	for mark in "$MOUNT"/.flex-provisioner/pvc-*; do
		[ -e "$mark" ] || continue
		what=${EXPORT%/}/${mark##*/}
		if name=$(readlink "$mark/name"); then
			what=
			if [ "$(readlink "$MOUNT/.flex-provisioner/names/$name")" = "${mark##*/}" ]; then
				what=${EXPORT%/}/.flex-provisioner/names/$name
				[ -L "$MOUNT/.flex-provisioner/kept/$name" ] || what="${EXPORT%/}/$name $what"
			fi
		fi
		echo "storage ${mark##*/} ssh $SERVER rm -rf -- ${what:+$what }${EXPORT%/}/.flex-provisioner/${mark##*/}"
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

marks=$MOUNT/.flex-provisioner
snapshots=$marks/snapshots
mark=$marks/$FLEX_PV_NAME
name=$(readlink "$mark/name") || name=$FLEX_PV_NAME
case $name in
*/* | .*) flexctl fail "$mark/name is no link of this provisioner: \"$name\" is no name of a directory; remove the link" ;;
esac
dir=$MOUNT/$name
flexctl require --mounted "$MOUNT=${MOUNTED_EXPORT:-nfs://$SERVER$EXPORT}"

# restore makes the directory from a snapshot. It is in its place whole, or not at all.
restore() {
	if [ -d "$mark/restored" ] && [ -e "$dir" ]; then
		rm -rf -- "$mark/copy" # of an attempt beside another
		return
	fi
	[ ! -e "$dir" ] || flexctl fail "$EXPORT/$name on $SERVER is kept from an earlier claim, and nothing is restored into it; move it out of the way"
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

case $FLEX_OPERATION in
provision)
	[ -d "$MOUNT" ] || flexctl fail --refuse "the export is not mounted at $MOUNT; key \"mount-claims\" does that"
	# Before anything is made. A directory that was restored needs it no more.
	[ -z "$snapshot" ] || [ -d "$mark/restored" ] || [ -d "$snapshots/$snapshot" ] ||
		flexctl fail --refuse "$EXPORT on $SERVER has no snapshot $snapshot"
	kept='' # for whom the directory has to be kept
	[ "$KEEP_ON_DELETE" != true ] || kept=$FLEX_PVC_NAMESPACE/$FLEX_PVC_NAME
	# In this order: an attempt beside this one makes the mark, or the link, first.
	if [ -n "$PATH_PATTERN" ]; then
		# Not by a look at the link: an attempt beside this one may have made it since it was read.
		[ "$name" != "$FLEX_PV_NAME" ] || name=$(flexctl dirname "$PATH_PATTERN")
		dir=$MOUNT/$name
		if [ -e "$dir" ]; then
			case $(readlink "$marks/names/$name" || true) in
			"$FLEX_PV_NAME") ;;
			'')
				[ "$(readlink "$marks/kept/$name" || echo nobody)" = "$kept" ] ||
					flexctl fail "$EXPORT/$name on $SERVER is not ours, and not kept for this claim; move it out of the way"
				;;
			*) flexctl fail "$EXPORT/$name on $SERVER is the directory of another volume, which has to be deleted first" ;;
			esac
		fi
	elif [ -e "$dir" ] && [ ! -d "$mark" ]; then
		flexctl fail "$EXPORT/$name on $SERVER is not ours; move it out of the way"
	fi
	# Classes whose provisioners are of other users may share the export. None can remove another's mark.
	[ -d "$marks" ] || mkdir -m 1777 -- "$marks" 2>/dev/null || true
	flexctl require --mark "$marks"
	mkdir -p -- "$mark"
	if [ -n "$PATH_PATTERN" ]; then
		ln -sn -- "$name" "$mark/name" 2>/dev/null || [ "$(readlink "$mark/name")" = "$name" ] ||
			flexctl fail "another attempt named the directory of the volume otherwise than $EXPORT/$name on $SERVER; the next attempt takes its name"
		for links in "$marks/names" "$marks/kept"; do
			[ -d "$links" ] || mkdir -m 1777 -- "$links" 2>/dev/null || [ -d "$links" ]
		done
		# Of two volumes one makes the link. The other one must not make, use or remove the directory.
		ln -sn -- "$FLEX_PV_NAME" "$marks/names/$name" 2>/dev/null || true
		[ "$(readlink "$marks/names/$name")" = "$FLEX_PV_NAME" ] ||
			flexctl fail "$EXPORT/$name on $SERVER is the directory of another volume, which has to be deleted first"
		[ -e "$dir" ] || rm -f -- "$marks/kept/$name" # somebody removed what was kept
		[ -z "$kept" ] || ln -sn -- "$kept" "$marks/kept/$name" 2>/dev/null || true
		if [ "$(readlink "$marks/kept/$name" || true)" != "$kept" ]; then
			rm -f -- "$marks/names/$name"
			flexctl fail "$EXPORT/$name on $SERVER is kept for a claim of another name; move it out of the way"
		fi
	fi
	if [ -n "$snapshot" ]; then
		restore
	else
		mkdir -p -- "$dir"
	fi
	# In this order: chown takes the setgid bit away.
	[ -z "$OWNER" ] || chown -- "$OWNER" "$dir" ||
		flexctl fail "$EXPORT/$name on $SERVER cannot be given to $OWNER: the class needs run-as-user \"0\", and the export no_root_squash"
	chmod -- "$MODE" "$dir"
	echo "nfs: {server: \"$SERVER\", path: \"${EXPORT%/}/$name\"}" | flexctl create-pv
	;;
expand)
	# A directory has no size of its own. That it is here is all there is to say.
	[ -d "$mark" ] || flexctl fail "$EXPORT/$name is not on $SERVER; is the export mounted at $MOUNT?"
	flexctl require --mark "$marks"
	;;
snapshot)
	[ -d "$mark" ] || flexctl fail "$EXPORT/$name is not on $SERVER; is the export mounted at $MOUNT?"
	flexctl require --mark "$marks"
	[ -d "$snapshots" ] || mkdir -m 1777 -- "$snapshots" 2>/dev/null || [ -d "$snapshots" ]
	code=0
	flexctl copy ${SNAPSHOT_COPY:+--full} -- "$dir" "$snapshots/$snapshot" || code=$?
	[ "$code" != 64 ] || flexctl fail --refuse "$EXPORT on $SERVER cannot share data between files; property \"snapshot-copy\" with \"full\" allows to copy all data"
	exit "$code"
	;;
delete-snapshot)
	[ -d "$marks" ] || flexctl fail --try-again "$marks is not there; is the export $EXPORT of $SERVER mounted at $MOUNT?"
	flexctl require --mark "$marks"
	remove_snapshot
	;;
delete)
	volume=$(flexctl volume metadata.name) # empty for an undo
	[ -d "$MOUNT" ] || flexctl fail --try-again "the export is not mounted at $MOUNT"
	# An undo may come before the first mark.
	[ -d "$marks" ] || [ -z "$volume" ] || flexctl fail --try-again "$marks is not there; is the export $EXPORT of $SERVER mounted at $MOUNT?"
	flexctl require --mark "$marks"
	held=$(readlink "$marks/names/$name" || true)
	if [ -d "$mark" ]; then
		removes=true
		if [ -L "$mark/name" ]; then
			# Another volume may hold the name by now, and what is kept stays.
			[ "$held" = "$FLEX_PV_NAME" ] && [ ! -L "$marks/kept/$name" ] || removes=false
		fi
		if [ "$removes" = true ] && [ "$ARCHIVE_ON_DELETE" = true ] && [ -e "$dir" ]; then
			mv -T -- "$dir" "$MOUNT/archived-$FLEX_PV_NAME" || [ ! -e "$dir" ] ||
				flexctl fail "$EXPORT/archived-$FLEX_PV_NAME on $SERVER is in the way; rename it"
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
		path=$(flexctl volume spec.nfs.path)
		name=${path##*/} dir=$MOUNT/${path##*/}
		[ ! -e "$dir" ] || [ -L "$marks/names/$name" ] || [ -L "$marks/kept/$name" ] ||
			flexctl fail "$EXPORT/$name on $SERVER has no mark, so it is not removed; remove it by hand"
	fi
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

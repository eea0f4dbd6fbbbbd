#!/bin/sh
# Makes, removes and expands a directory of an NFS export for each claim of the class {{.Name}}, and takes snapshots. Put your storage in its place.
# Properties: server and export, as nodes mount it; mount, where this pod has the export, /export if not given.
set -eu
trap 'flexctl fail "the attempt was told to end"' TERM # the pod's first process hears of that only if it asks to
: "${MOUNT:=/export}"
dir=$MOUNT/$FLEX_PV_NAME # the one name by which the next attempt, and the delete, find it again
snapshots=$MOUNT/.{{.Name}}-snapshots
# Away is not gone: the mark tells the export from an empty mount point, and from another one. To provision, it is made.
flexctl require server export
flexctl require --mounted "$MOUNT=nfs://$SERVER$EXPORT" --mark "$MOUNT/.{{.Name}}"

case $FLEX_OPERATION in
provision)
	# May be killed anywhere and run again, so that every step may find itself done.
	if [ -n "$FLEX_SOURCE_SNAPSHOT" ]; then
		[ -d "$dir" ] || [ -d "$snapshots/$FLEX_SOURCE_SNAPSHOT" ] || flexctl fail --refuse "there is no snapshot $FLEX_SOURCE_SNAPSHOT"
		flexctl copy --full "$snapshots/$FLEX_SOURCE_SNAPSHOT" "$dir" # whole, or not at all
	fi
	mkdir -p -- "$dir"
	chmod 0777 "$dir"
	# Last, since the claim is bound by it.
	flexctl create-pv --nfs "$SERVER:$EXPORT/$FLEX_PV_NAME"
	;;
expand)
	# A directory has no size of its own. That it is here is all there is to say.
	[ -d "$dir" ] || flexctl fail --try-again "$EXPORT/$FLEX_PV_NAME is not there; is the export mounted?"
	;;
delete)
	# The name is the proof that it is ours. What is gone already is success.
	rm -rf -- "$dir" "$MOUNT/.$FLEX_PV_NAME".copy-*
	;;
snapshot)
	mkdir -p -- "$snapshots"
	flexctl copy --full "$dir" "$snapshots/$FLEX_SNAPSHOT_NAME"
	;;
delete-snapshot)
	# Out of the way first, so that nothing is restored from a part of it.
	rm -rf -- "$snapshots/.$FLEX_SNAPSHOT_NAME".copy-*
	[ ! -d "$snapshots/$FLEX_SNAPSHOT_NAME" ] || mv -- "$snapshots/$FLEX_SNAPSHOT_NAME" "$snapshots/.$FLEX_SNAPSHOT_NAME.copy-gone"
	rm -rf -- "$snapshots/.$FLEX_SNAPSHOT_NAME".copy-*
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

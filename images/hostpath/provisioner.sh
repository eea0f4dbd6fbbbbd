#!/bin/sh
# Directories of a node as volumes. Properties: root, the directory of the node that they lie in and that the class's key
# host-path mounts at the same path; mode and owner (UID:GID), theirs, 0777 and the pod's user if not given. Sizes are not
# enforced: expanding a volume changes a number only.
#
# The mark of a volume is made before its directory and removed after it, out of the reach of pods. It proves that a
# directory is ours. The directory of the marks proves that the root is a disk, and not its empty mount point, and the file
# .flex-provisioner.id beside it that it is the disk on which the volume was made.
set -eu

: "${MODE:=0777}" "${OWNER:=}"
case ${ROOT-} in
'') flexctl fail --refuse 'property "root" is missing: name a directory of the node, the same as in key "host-path"' ;;
[!/]* | *[!A-Za-z0-9._/-]* | */../* | */..) flexctl fail --refuse "property \"root\" is \"$ROOT\": write an absolute path of letters, digits, '.', '_' and '-'" ;;
esac
expr "$MODE" : '[0-7]\{3,4\}$' >/dev/null ||
	flexctl fail --refuse "property \"mode\" is \"$MODE\": write octal digits such as 0777"
[ -z "$OWNER" ] || expr "$OWNER" : '[0-9]\{1,9\}:[0-9]\{1,9\}$' >/dev/null ||
	flexctl fail --refuse "property \"owner\" is \"$OWNER\": write a user and a group as numbers, such as 1000:1000"
flexctl require root --optional mode,owner
if [ "$FLEX_OPERATION" = list ]; then
	[ -d "$ROOT/.flex-provisioner" ] || flexctl fail --not-here "node $FLEX_NODE has no $ROOT/.flex-provisioner: nothing was made here, or its disk is not mounted"
	for mark in "$ROOT"/.flex-provisioner/pvc-*; do
		[ ! -e "$mark" ] || echo "storage ${mark##*/} ssh $FLEX_NODE rm -rf -- $ROOT/${mark##*/} $mark"
	done
	exit
fi
expr "$FLEX_PV_NAME" : 'pvc-[0-9a-f]\{8\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{4\}-[0-9a-f]\{12\}$' >/dev/null ||
	flexctl fail --refuse "\"$FLEX_PV_NAME\" is no name of a volume, pvc-UID"

dir=$ROOT/$FLEX_PV_NAME
marks=$ROOT/.flex-provisioner
mark=$marks/$FLEX_PV_NAME

case $FLEX_OPERATION in
provision)
	[ -d "$ROOT" ] || flexctl fail --not-here "node $FLEX_NODE has no directory $ROOT; does key \"host-path\" name it?"
	# In this order: an attempt beside this one makes the mark first.
	if [ -e "$dir" ] && [ ! -d "$mark" ]; then
		flexctl fail "$dir on node $FLEX_NODE is not ours; move it out of the way"
	fi
	mkdir -p -- "$marks"
	flexctl require --mark "$marks"
	mkdir -p -- "$mark"
	mkdir -p -- "$dir"
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
delete)
	volume=$(flexctl volume metadata.name) # empty for an undo
	if [ -n "$volume" ]; then
		# Of another node's directory "not there" says nothing.
		node=$(flexctl volume spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.values.0)
		[ "$node" = "$FLEX_NODE" ] || flexctl fail --not-here "$dir is on node $node, and this is node $FLEX_NODE"
	fi
	[ -d "$ROOT" ] || flexctl fail --try-again "node $FLEX_NODE has no directory $ROOT; is its disk mounted?"
	# An undo may come before the first mark.
	[ -d "$marks" ] || [ -z "$volume" ] || flexctl fail --try-again "$marks is not on node $FLEX_NODE; is the disk of $ROOT mounted?"
	flexctl require --mark "$marks"
	if [ -d "$mark" ]; then
		# BusyBox's rm fails for a directory that a delete beside this one removed meanwhile.
		rm -rf -- "$dir" || [ ! -e "$dir" ]
		rm -rf -- "$mark" || [ ! -e "$mark" ]
	elif [ -n "$volume" ]; then # an undo leaves what is not ours alone
		[ ! -e "$dir" ] || flexctl fail "$dir on node $FLEX_NODE has no mark in $marks, so it is not removed; remove it by hand"
	fi
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

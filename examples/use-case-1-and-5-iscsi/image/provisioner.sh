#!/bin/sh
# iSCSI volumes of a Linux target (tgtd): for each claim a target with one LUN, a file with a btrfs in it. Properties: portal,
# as nodes reach it; iqn, the prefix of the targets' names; initiators, who may log in; files, where the files lie.
set -eu
flexctl require portal iqn initiators files
export TGT_IPC_SOCKET=/run/tgtd/socket # tgtd adds .0
name=$IQN:$FLEX_PV_NAME
file=$FILES/$FLEX_PV_NAME

tgt() { tgtadm --lld iscsi --mode "$@"; }
# show is what tgtd knows. Without an answer nothing is known, least of all that the target is gone.
show() { tgt target --op show || flexctl fail --try-again "tgtd does not answer at $TGT_IPC_SOCKET"; }
number() { echo "$targets" | awk -v name="$name" '$1 == "Target" && $3 == name {print $2 + 0}'; }
unused() { echo "$targets" | awk '$1 == "Target" && $2 + 0 > last {last = $2 + 0} END {print last + 1}'; }

targets=$(show)
tid=$(number)
case $FLEX_OPERATION in
provision)
	if [ ! -e "$file" ]; then # it gets its name once it is whole
		truncate -s "$FLEX_SIZE_BYTES" "$file.new"
		mkfs.btrfs -q -f "$file.new"
		mv "$file.new" "$file"
	fi
	if [ -n "$tid" ] && ! echo "$targets" | grep -qF "$file"; then # an attempt that was killed halfway
		tgt target --op delete --tid "$tid"
		tid=
	fi
	if [ -z "$tid" ]; then
		tid=$(unused)
		tgt target --op new --tid "$tid" -T "$name"
		for initiator in $(echo "$INITIATORS" | tr , ' '); do tgt target --op bind --tid "$tid" -I "$initiator"; done
		tgt logicalunit --op new --tid "$tid" --lun 1 -b "$file" # last: it makes the target whole
	fi
	flexctl create-pv --iscsi "$PORTAL,$name,1" --fs-type btrfs
	;;
delete)
	if [ -n "$tid" ]; then
		tgt target --op delete --tid "$tid" || flexctl fail --try-again "target $name is in use"
	fi
	rm -f -- "$file" "$file.new"
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

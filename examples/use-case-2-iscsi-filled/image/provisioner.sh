#!/bin/sh
# iSCSI volumes of a Linux target (tgtd) that have the files of an archive in them before their claim is bound. For each
# claim a target with one LUN is made, logged in to by CHAP, written, and logged out of, all by the tools of this image.
# Properties: portal, as nodes and this pod reach the target; iqn, the prefix of the targets' names; files, the directory
# of the LUNs; archive, a .tar.gz that this pod finds at this path; chap-namespace, where nodes' Secret iscsi-chap is;
# initiators, the addresses that may log in beside knowing the password, ALL if not given; chap, where this pod has it.
#
# A LUN has its name once it is whole. No other is ever seen by a claim, and this one is never written to again.
set -eu
trap 'flexctl fail "the attempt was told to end"' TERM # the pod's first process hears of that only if it asks to

flexctl require portal iqn files archive chap-namespace
: "${INITIATORS:=ALL}" "${CHAP:=/var/run/secrets/flex-provisioner/iscsi-chap}"
form() { # PROPERTY VALUE CHARACTERS
	case $2 in *[!$3]*) flexctl fail --refuse "property \"$1\" is \"$2\": write letters, digits and the signs that belong there" ;; esac
}
form portal "$PORTAL" '][A-Za-z0-9.:-'
form iqn "$IQN" 'A-Za-z0-9.:-'
form files "$FILES" 'A-Za-z0-9._/-'
form initiators "$INITIATORS" 'A-Za-z0-9.:/,-'
form chap-namespace "$CHAP_NAMESPACE" 'a-z0-9-'
flexctl require --mark "$FILES/.use-case-2" # a disk that is not mounted is not one whose LUNs are gone

export TGT_IPC_SOCKET=/run/tgtd/socket # tgtd adds .0
name=$IQN:$FLEX_PV_NAME
lun=$FILES/$FLEX_PV_NAME

tgt() { tgtadm --lld iscsi --mode "$@"; }
# look learns what tgtd knows. Without an answer nothing is known, least of all that the target is gone.
look() {
	targets=$(tgt target --op show) || flexctl fail --try-again "tgtd does not answer at $TGT_IPC_SOCKET"
	tid=$(echo "$targets" | awk -v name="$name" '$1 == "Target" && $3 == name {print $2 + 0}')
}
serves() { echo "$targets" | awk -v file="$1" '/Backing store path:/ && $4 == file {found = 1} END {exit !found}'; }
unused() { echo "$targets" | awk '$1 == "Target" && $2 + 0 > last {last = $2 + 0} END {print last + 1}'; }
# waited runs a command that may take long, during which SIGTERM is heard.
waited() { "$@" & wait $!; }
escaped() { printf %s "$1" | sed 's/,/,,/g'; } # for a value of an option of QEMU

# serve makes the target: the account first, without which anybody could log in, and the LUN last, which makes it whole.
serve() { # FILE INITIATORS
	tid=$(unused)
	tgt target --op new --tid "$tid" -T "$name"
	tgt account --op bind --tid "$tid" --user "$user" || flexctl fail "tgtd has no account $user; make it with the password of the Secret"
	for initiator in $(echo "$2" | tr , ' '); do tgt target --op bind --tid "$tid" -I "$initiator"; done
	tgt logicalunit --op new --tid "$tid" --lun 1 -b "$1"
}
unserve() {
	[ -z "$tid" ] || tgt target --op delete --tid "$tid" || flexctl fail --try-again "target $name is in use"
	look
}

# image is the whole volume as a sparse file of this pod's. The target has nothing of it yet.
image() {
	rm -rf -- "$lun.tree" "$lun.image"
	[ -r "$ARCHIVE" ] || flexctl fail "there is no archive $ARCHIVE"
	# Before it is unpacked, which takes room of all volumes.
	bytes=$(tar --numeric-owner -tvzf "$ARCHIVE" | awk '{bytes += $3} END {printf "%.0f", bytes}')
	[ "$bytes" -le "$FLEX_SIZE_BYTES" ] || refuse "archive $ARCHIVE has $bytes bytes, and the claim asks for $FLEX_SIZE_BYTES: ask for more"
	mib=$(((FLEX_SIZE_BYTES + 1048575) / 1048576))
	truncate -s "${mib}M" "$lun.image" || refuse "a volume of $mib MiB is larger than a file can be"
	mkdir -m 0700 -- "$lun.tree"
	waited tar -xzf "$ARCHIVE" -C "$lun.tree" || refuse "archive $ARCHIVE cannot be unpacked"
	waited mkfs.ext4 -q -F -m 0 -O sparse_super2 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard -d "$lun.tree" "$lun.image" ||
		refuse "archive $ARCHIVE does not fit into a file system of $mib MiB"
	rm -rf -- "$lun.tree"
}
refuse() { # MESSAGE: nothing was made
	rm -rf -- "$lun.tree" "$lun.image"
	flexctl fail --refuse "$1"
}

# fill logs in, writes what is not zero, and logs out. QEMU reads the password from its file, so that no command line has it.
fill() {
	waited qemu-img convert -n --target-is-zero -t writeback -f raw \
		--object "secret,id=chap,file=$(escaped "$CHAP/node.session.auth.password")" --target-image-opts "$lun.image" \
		"driver=raw,file.driver=iscsi,file.transport=tcp,file.portal=$PORTAL,file.target=$name,file.lun=1,file.initiator-name=$IQN:provisioner,file.user=$(escaped "$user"),file.password-secret=chap" ||
		flexctl fail "the LUN cannot be written to at $PORTAL; the log of the pod says why"
}

exec 9<"$FILES" # one attempt at a time, also of another class. The kernel ends the lock with its owner
waited flock 9
look
case $FLEX_OPERATION in
provision)
	user=$(cat "$CHAP/node.session.auth.username") || flexctl fail "Secret iscsi-chap has no node.session.auth.username"
	if [ ! -e "$lun" ]; then
		image
		unserve # what a killed attempt left
		rm -f -- "$lun.new"
		truncate -s "${mib}M" "$lun.new"
		serve "$lun.new" ALL
		fill
		look
		unserve
		sync "$lun.new"
		mv -- "$lun.new" "$lun"
	fi
	rm -rf -- "$lun.image"
	if ! serves "$lun"; then
		unserve
		serve "$lun" "$INITIATORS"
	fi
	echo "iscsi: {targetPortal: '$PORTAL', iqn: '$name', lun: 1, fsType: ext4, chapAuthSession: true," \
		"secretRef: {namespace: '$CHAP_NAMESPACE', name: iscsi-chap}}" | flexctl create-pv
	;;
delete)
	unserve
	rm -rf -- "$lun" "$lun.new" "$lun.image" "$lun.tree"
	;;
*) flexctl fail --refuse "operation $FLEX_OPERATION is not known" ;;
esac

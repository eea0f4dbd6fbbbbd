#!/bin/sh
# Directories of an NFS export, noting on each volume which version made it. Properties: server, export.
set -eu
version=$(cat /version)
dir=/export/$FLEX_PV_NAME
[ -d /export ] || flexctl fail --try-again "the export is not mounted; disks $version, bugs: https://storage.example/disks/bugs"
flexctl require server export --mark /export/.disks
case $FLEX_OPERATION in
provision)
	mkdir -p "$dir"
	chmod 0777 "$dir"
	flexctl create-pv --nfs "$SERVER:$EXPORT/$FLEX_PV_NAME" --annotation "storage.example/disks-version=$version"
	;;
delete) rm -rf -- "$dir" ;;
*) flexctl fail --refuse "disks $version does not know the operation $FLEX_OPERATION" ;;
esac

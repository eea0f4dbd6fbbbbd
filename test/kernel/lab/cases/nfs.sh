#!/bin/bash
# nfs-subdir on an export with root_squash, where the provisioner is nobody, in the cluster. The case "cluster" shows it on
# one without.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
install
# The class again, with the other export.
for file in storageclass configmap export; do echo ---; cat "examples/nfs-subdir/class/$file.yaml"; done |
	sed "s#10\.99\.0\.1\b#$STORAGE_IP#; s#/srv/nfs#/srv/squashed#
		s#^\( *\)\(name\|volumeName\|storage-class\|mount-claims\): nfs-subdir#\1\2: nfs-squashed#; $PATIENT" |
	kubectl apply -f - > /dev/null
claim squashed nfs-squashed ReadWriteMany Filesystem
pod squashed node2 squashed 'echo written > /data/file && cat /data/file && ls -ln /data'
eventually 60 "what the pod on node2 read" 'written*' kubectl logs squashed
kubectl logs squashed
at "$STORAGE" 'ls -ln /srv/squashed'
remove squashed
is "left on the NFS server" '' "$(at "$STORAGE" 'ls /srv/squashed')"

#!/bin/bash
# The dispatcher on nodes with Debian's kernel, and claims of the classes hostpath and nfs-subdir, the latter on the
# kernel's NFS server.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
kubectl get nodes -o wide
install
for class in hostpath nfs-subdir; do
	began=$(now)
	consume "$class" node3
	remove "$class"
	echo "$class: claim, write, read and delete took $(since "$began")"
done
is "left on node3" '' "$(at node3 'ls /var/lib/flex-hostpath')"
is "left on the NFS server" '' "$(at "$STORAGE" 'ls /srv/nfs')"

#!/bin/bash
# A volume with two portals: the kubelet logs in to both, and multipathd makes one disk of them. The cable of one portal is
# pulled while a pod writes, and put back.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
install
cloud_config
cinder_class cinder-paths 'multipath: "true"'
claim paths cinder-paths ReadWriteOnce Filesystem
is "portals" "$STORAGE_IP:3260 ?\"$SECOND_NET.5:3260\"?" "$(volume paths '.spec.iscsi.targetPortal} {.spec.iscsi.portals')"
# shellcheck disable=SC2016 # the pod's shell expands it
pod paths node2 paths 'i=0; while [ ! -e /data/stop ]; do i=$((i + 1)); echo "line $i" >> /data/lines; sync; done
	awk "\$2 != NR {exit} END {print \"in order\", NR}" /data/lines; sleep 3600'
states() { at node2 'multipathd show paths raw format %t | sort | uniq -c | xargs'; }
lines() { kubectl exec paths -- wc -l /data/lines | cut -d' ' -f1; }
more_than() { [ "$(lines)" -gt "$1" ]; }
until_ok 60 more_than 20 || kubectl describe pod paths
eventually 30 "paths" '2 active' states
is "mounts of the disk" '/dev/mapper/* ext4 rw,*' "$(at node2 'grep ^/dev/mapper /proc/mounts | head -n 1')"
before=$(lines)
began=$(now)
inside ip link set "$STORAGE-1" nomaster
eventually 60 "paths with one cable pulled" '1 active 1 failed' states
echo "the path was given up after $(since "$began")"
until_ok 60 more_than $((before + 50)) || true
after=$(lines)
is "lines written, $before before and $after after" yes "$([ "$after" -ge $((before + 50)) ] && echo yes || echo no)"
inside ip link set "$STORAGE-1" master net1
eventually 60 "paths once the cable is back" '2 active' states
kubectl exec paths -- touch /data/stop
eventually 30 "lines in their order" 'in order *' kubectl logs paths
remove paths
is "maps of multipathd" '' "$(at node2 'multipath -ll')"
no_cinder

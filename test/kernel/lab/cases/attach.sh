#!/bin/bash
# Volumes that flex-node stages: those of cinder-iscsi with initiatorMode attach, which Cinder gives to one node after
# the other, and images of loop. Their file systems grow while pods use them.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
install
cloud_config
cinder_class cinder-attach 'initiatorMode: attach'
cinder_class cinder-xfs 'initiatorMode: attach, csi.storage.k8s.io/fstype: xfs'
NAME=iqn.2026-01.io.flex-provisioner
USE='echo done; while :; do date >> /data/dates; sync; sleep 1; done'
states() { at node2 'multipathd show paths raw format %t | sort | uniq -c | xargs'; }
sessions() { at "$1" 'iscsiadm -m session 2> /dev/null | wc -l'; }
admitted() { at "$STORAGE" "ls $LIO/iscsi/*/tpgt_1/acls | grep ^iqn | xargs"; }
ready() { kubectl get node node3 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'; }
mebibytes() { kubectl exec "$1" -- df -m /data | awk 'END {print ($2 > 1800 ? "grown" : "not grown"), $2}'; }
# grow CLAIM POD: has the volume grow to 2Gi while the pod uses it.
grow() {
	kubectl patch pvc "$1" -p '{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}' > /dev/null
	eventually 120 "the file system as $2 sees it" 'grown *' mebibytes "$2"
}
delete() { kubectl delete "pod/$1" "pvc/$2" > /dev/null; }

echo "node3 is not there yet:"
power_off node3
kubectl delete node node3 > /dev/null
flex_node

echo "an image:"
unbound image loop ReadWriteOnce Filesystem
pod with-image node2 image "$USE"
eventually 60 "what the pod says" 'done' kubectl logs with-image
grow image with-image
delete with-image image

echo "a volume of Cinder's with XFS:"
claim xfs cinder-xfs ReadWriteOnce Filesystem
pod with-xfs node2 xfs "$USE"
eventually 120 "what the pod says" 'done' kubectl logs with-xfs
is "mounts of the disk" '/dev/mapper/* xfs rw,*' "$(at node2 'grep ^/dev/mapper /proc/mounts | head -n 1')"
grow xfs with-xfs
delete with-xfs xfs
NODES_OF_LAB=node2 no_cinder

echo "a volume of Cinder's with ext4:"
claim attached cinder-attach ReadWriteOnce Filesystem
pod first node2 attached "echo kept > /data/file; sync; $USE"
eventually 120 "what the pod on node2 says" 'done' kubectl logs first
is "initiators that the target admits" "$NAME:node2" "$(admitted)"
is "the kernel's name of the initiator" "$NAME:node2" \
	"$(at node2 'cat /sys/class/iscsi_session/session*/initiatorname | sort -u')"
is "logged in by CHAP as" '?*' "$(at node2 'cat /sys/class/iscsi_session/session*/username | sort -u')"
eventually 30 "paths" '2 active' states
is "mounts of the disk" '/dev/mapper/* ext4 rw,*' "$(at node2 'grep ^/dev/mapper /proc/mounts | head -n 1')"
grow attached first

echo "node3 joins:"
boot node3 3G node
eventually 120 "node3 ready" True ready
flex_node
kubectl delete pod first > /dev/null
pod second node3 attached "cat /data/file; $USE"
eventually 120 "what the pod on node3 reads" 'kept*' kubectl logs second
is "initiators that the target admits" "$NAME:node3" "$(admitted)"
is "sessions on node2" 0 "$(sessions node2)"
is "maps on node2" '' "$(at node2 'multipath -ll')"

echo "node3 loses its power while its pod writes:"
began=$(now)
power_off node3
eventually 60 "node3 ready" Unknown ready
pod third node2 attached "cat /data/file; tail -n 1 /data/dates; $USE"
kubectl taint node node3 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute
eventually 120 "what a pod on node2 reads" 'kept*' kubectl logs third
echo "read on node2 $(since "$began") after the power of node3 went"
is "initiators that the target admits" "$NAME:node2" "$(admitted)"
delete third attached
boot node3 3G node
kubectl taint node node3 node.kubernetes.io/out-of-service:NoExecute-
eventually 120 "node3 ready again" True ready
eventually 120 "VolumeAttachments" '' kubectl get volumeattachments -o name
no_cinder

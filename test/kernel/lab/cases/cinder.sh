#!/bin/bash
# A claim of the class cinder-iscsi, on a real Cinder with LVM and LIO: the kubelet mounts it by the kernel's initiator,
# with the volume's initiator name and CHAP, on one node after the other.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
install
cloud_config
claim disk cinder-iscsi ReadWriteOnce Filesystem
pod disk node2 disk 'echo written > /data/file && cat /data/file && sync && sleep 3600'
eventually 60 "what the pod on node2 read" written kubectl logs disk
at node2 'iscsiadm -m session -P 3' | grep -E 'Target:|Initiatorname|Current Portal|username:|scsi disk'
is "the kernel's name of the initiator" "$(volume disk .spec.iscsi.initiatorName)" \
	"$(at node2 'cat /sys/class/iscsi_session/session*/initiatorname')"
is "the kernel's CHAP user" '?*' "$(at node2 'cat /sys/class/iscsi_session/session*/username')"
is "mounts of the disk" '/dev/sd? * ext4 rw,*' "$(at node2 "grep ^/dev/sd /proc/mounts | grep iscsi | head -n 1")"
kubectl delete pod disk > /dev/null
pod disk node3 disk 'cat /data/file'
eventually 60 "what a pod on node3 read then" written kubectl logs disk
remove disk
no_cinder

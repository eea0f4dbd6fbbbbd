#!/bin/bash
# A node loses its power while a pod there writes. Its volume is used on the other node once an administrator says that the
# node is out of service, and the node comes back empty.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
install
cloud_config
claim kept cinder-iscsi ReadWriteOnce Filesystem
pod before node3 kept 'echo kept > /data/file; sync; echo done; while :; do date >> /data/dates; sync; sleep 1; done'
eventually 60 "what the pod on node3 says" 'done' kubectl logs before
began=$(now)
power_off node3
ready() { kubectl get node node3 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}'; }
eventually 60 "node3 ready" Unknown ready
pod kept node2 kept 'cat /data/file; tail -n 1 /data/dates'
kubectl taint node node3 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute
eventually 90 "what a pod on node2 reads" 'kept*' kubectl logs kept
echo "read on node2 $(since "$began") after the power of node3 went"
kubectl logs kept
is "pods on node3" '' "$(kubectl get pods --field-selector spec.nodeName=node3 -o name)"
remove kept
boot node3 3G node
kubectl taint node node3 node.kubernetes.io/out-of-service:NoExecute-
eventually 120 "node3 ready again" True ready
no_cinder

#!/bin/bash
# The class hostpath on a node that enforces SELinux. Each pod has a level of its own, and the runtime gives a volume that
# of the pod that uses it. So a delete can read nothing of it, unless the class has the key selinux-level.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
alive "$SELINUX_NODE" || boot "$SELINUX_NODE" 3G node
install
until_ok 120 kubectl wait --for=condition=Ready --timeout=10s "node/$SELINUX_NODE" ||
	die "$SELINUX_NODE did not become ready: see $LOG/$SELINUX_NODE.log"
is "SELinux on $SELINUX_NODE" Enforcing "$(at "$SELINUX_NODE" getenforce)"
labels() { at "$SELINUX_NODE" "ls -dZ /var/lib/flex-hostpath/$1 | cut -d' ' -f1"; }
denials() { at "$SELINUX_NODE" 'dmesg | grep -c "avc: *denied" || true'; }
events() {
	kubectl get events --field-selector "involvedObject.name=$1" -o 'jsonpath={range .items[*]}{.reason}: {.message} {end}'
}

echo "without selinux-level:"
consume hostpath "$SELINUX_NODE"
one=$(volume hostpath)
is "label of the volume" 'system_u:object_r:container_file_t:s0:c*,c*' "$(labels "$one")"
kubectl delete pod/hostpath pvc/hostpath > /dev/null
eventually 60 "why it is not removed" '*.flex-provisioner.id: permission denied*selinux-level*' events "$one"
at "$SELINUX_NODE" 'dmesg | grep "avc: *denied" | tail -n 2'

echo "with selinux-level:"
kubectl -n flex-provisioners patch configmap hostpath -p '{"data": {"selinux-level": "s0-s0:c0.c1023"}}' > /dev/null
kubectl wait --for=delete "pv/$one" --timeout=15m > /dev/null || kubectl describe pv "$one"
before=$(denials)
consume hostpath "$SELINUX_NODE"
is "label of the volume" 'system_u:object_r:container_file_t:s0:c*,c*' "$(labels "$(volume hostpath)")"
remove hostpath
is "what is left on $SELINUX_NODE" '' "$(at "$SELINUX_NODE" 'ls /var/lib/flex-hostpath')"
is "denials since then" "$before" "$(denials)"

#!/bin/bash
# Two nodes write to one raw device, for SECONDS_OF_LOAD seconds: stripes of 64 KiB that alternate, each over and over.
# With names of their own (initiatorMode node), all is there afterwards. With one name for both (fixed), no volume
# is made.
# shellcheck source=/dev/null disable=SC2154
. "$(dirname "$0")/../case.sh"
install
cloud_config
NAME=iqn.2026-01.io.flex-provisioner
STRIPES=16
cinder_class cinder-nodes 'initiatorMode: node, type: multiattach' "  initiators: node2=$NAME:node2,node3=$NAME:node3"
cinder_class cinder-fixed "initiatorMode: fixed, initiator: $NAME:all, type: multiattach"

# Round R of node N fills each of its stripes with lines "N round R".
fill() { echo "{ yes \"$1 round \$round\" || true; } | head -c 65536"; }
writer() { # NODE FIRST
	echo "end=\$((\$(date +%s) + ${SECONDS_OF_LOAD:-600})); round=0
	while [ \$(date +%s) -lt \$end ]; do
		round=\$((round + 1)) i=$2
		$(fill "$1") > /tmp/stripe
		while [ \$i -lt $((2 * STRIPES)) ]; do
			dd if=/tmp/stripe of=/data bs=64k count=1 seek=\$i oflag=direct conv=notrunc status=none || echo failed
			i=\$((i + 2))
		done
	done
	echo rounds \$round; sleep 3600"
}
# want ROUNDS2 ROUNDS3: what the device has to be, as a checksum.
want() {
	local i round
	for ((i = 0; i < 2 * STRIPES; i++)); do
		# shellcheck disable=SC2034 # what fill prints reads it
		if [ $((i % 2)) = 0 ]; then round=$1 && eval "$(fill node2)"; else round=$2 && eval "$(fill node3)"; fi
	done | sha256sum
}
ended() { kubectl logs "$1" | sed -n 's/^rounds //p'; }

# load CLASS: has both nodes write to a volume of that class.
load() {
	local node
	claim shared "$1" ReadWriteMany Block
	pod on-node2 node2 shared "$(writer node2 0)"
	pod on-node3 node3 shared "$(writer node3 1)"
	for node in node2 node3; do
		at "$node" 'dmesg -C'
		until_ok $((60 + ${SECONDS_OF_LOAD:-600} / 5)) prints '[1-9]*' ended "on-$node" || kubectl describe "pod/on-$node"
		echo "$node: rounds $(ended "on-$node"), of $STRIPES stripes each;" \
			"failed writes: $(kubectl logs "on-$node" | grep -c failed || true);" \
			"sessions lost: $(at "$node" 'dmesg | grep -c "detected conn error"')"
	done
}
read_by() { kubectl exec "on-$1" -- dd if=/data bs=64k count=$((2 * STRIPES)) iflag=direct status=none | sha256sum; }
end_load() {
	kubectl delete pod on-node2 on-node3 > /dev/null
	remove shared
	no_cinder
}

load cinder-nodes
sum=$(want "$(ended on-node2)" "$(ended on-node3)")
for node in node2 node3; do
	is "the device as $node reads it" "$sum" "$(read_by "$node")"
	is "the kernel's name of the initiator" "$NAME:$node" "$(at "$node" 'cat /sys/class/iscsi_session/session*/initiatorname')"
	is "failed writes" 0 "$(kubectl logs "on-$node" | grep -c failed || true)"
	is "sessions lost" 0 "$(at "$node" 'dmesg | grep -c "detected conn error"')"
done
end_load

echo "one name for both nodes:"
unbound shared cinder-fixed ReadWriteMany Block
said() { kubectl get events --field-selector reason=ProvisionerRefused -o 'jsonpath={.items[*].message}'; }
eventually 120 "why no volume is made" '*several nodes would log in as *, and end each other*' said
kubectl delete pvc shared > /dev/null

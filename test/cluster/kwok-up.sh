#!/bin/bash
# kwok-up.sh [N]: N simulated nodes, default 1, kwok-0 ... Their pods run nothing: they end after SIM_DURATION (default
# 200ms) with SIM_EXIT_CODE (default 0) and SIM_MESSAGE, all read from the first container's environment, see kwok/pods.yaml.
# Labelled type=kwok and tainted: only a pod that asks for them, with a toleration, lands there.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"

nodes() {
	local i
	for i in $(seq 0 $(($1 - 1))); do
		cat <<-N
		---
		apiVersion: v1
		kind: Node
		metadata:
		  name: kwok-$i
		  labels: {type: kwok, kubernetes.io/hostname: kwok-$i}
		spec:
		  taints: [{key: flex-provisioner.io/simulated, value: "true", effect: NoSchedule}]
		N
	done
}
kubectl() { "$BIN/kubectl" --kubeconfig "$CLUSTER/kubeconfig" "$@"; }

main() {
	local n=${1:-1} began
	case $n in *[!0-9]* | 0 | '') die "usage: kwok-up.sh [N]: $n is not a number of nodes" ;; esac
	need_root
	lock
	need_running
	"$HERE/build.sh" kwok
	began=$(now)
	alive kwok || spawn kwok env HOME="$STATE" "$BIN/kwok" --kubeconfig "$PKI/admin.kubeconfig" \
		--config "$HERE/kwok/config.yaml" --config "$HERE/kwok/nodes.yaml" --config "$HERE/kwok/pods.yaml"
	nodes "$n" | kubectl apply -f - > "$LOG/kwok-nodes.log"
	kubectl wait --for=condition=Ready node -l type=kwok --timeout=60s >> "$LOG/kwok-nodes.log" ||
		die "simulated nodes did not become ready: see $LOG/kwok.log"
	say "$n simulated node(s) ready after $(since "$began")"
}
main "$@"

#!/bin/bash
# Builds the bench and runs it. ARGS go to the program (bin/bench -h): ARGS=--check fails where a goal is missed, ARGS="-cases burst
# -sizes 500 -runs 1" is a quick look.
set -euo pipefail
cd "$(dirname "$0")/../.."
args=()
[ -z "${ARGS:-}" ] || read -ra args <<< "$ARGS"
go build -o bin/bench ./test/bench
[[ ! " ${args[*]} " =~ [[:space:]]--?snapshots ]] || test/cluster/build.sh snapshot
wanted=$(bin/bench "${args[@]}" -list)
case ",$wanted," in
*,pods,*) # the real kubelet runs the dispatcher's image as it is built now
	export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/.cluster/bin:$PATH
	test/cluster/load-image.sh bin/images/*.tar > /dev/null
	kubectl apply --server-side --force-conflicts -k deploy/base > /dev/null
	kubectl -n flex-system rollout restart deployment/flex-provisioner > /dev/null
	kubectl -n flex-system rollout status deployment/flex-provisioner --timeout=2m
	args+=(-pleg "$(sed -n 's/^PLEG=//p' .cluster/state/settings)")
	;;
esac
exec bin/bench "${args[@]}"

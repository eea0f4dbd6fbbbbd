#!/bin/bash
# Installs the dispatcher on the test cluster, as it is built now, and measures it. ARGS go to the program: ARGS="-n 20".
set -euo pipefail
cd "$(dirname "$0")/../.."
export KUBECONFIG=$PWD/.cluster/kubeconfig PATH=$PWD/.cluster/bin:$PATH
test/cluster/load-image.sh bin/images/*.tar > /dev/null
kubectl apply -k deploy/base > /dev/null
kubectl -n flex-system rollout restart deployment/flex-provisioner > /dev/null
kubectl -n flex-system rollout status deployment/flex-provisioner --timeout=2m
read -ra args <<< "${ARGS:-}"
go build -o bin/bench ./test/bench
# Inside the node's namespaces: the way in from outside, through a socket, would cost more than what is measured.
test/cluster/enter.sh "$PWD/bin/bench" -kubeconfig "$PWD/.cluster/pki/admin.kubeconfig" "${args[@]}"

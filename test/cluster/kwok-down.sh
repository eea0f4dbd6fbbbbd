#!/bin/bash
# Takes the simulated nodes and their pods away.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
kubectl() { "$BIN/kubectl" --kubeconfig "$CLUSTER/kubeconfig" "$@"; }
need_root
lock
need_running
kubectl delete node -l type=kwok # while kwok lives, so that it lets the nodes' pods go
stop kwok KILL
say "no simulated nodes"

#!/bin/bash
# load-image.sh [--node NODE] FILE.tar...: imports image archives into containerd, by default on all nodes that have power.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
only=''
[ "${1:-}" != --node ] || { only=$2 && shift 2; }
[ $# -gt 0 ] || die "usage: load-image.sh [--node NODE] FILE.tar..."
need_root
need_running
ctr() { inside env CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1 "$BIN/ctr" -a "$NODE_RUN/containerd.sock" -n k8s.io "$@" < /dev/null; }
marked() { ctr images ls "name==$1" | grep -q io.cri-containerd.image=managed; }

load() {
	local f tag
	for f; do
		[ -e "$f" ] || die "no such file: $f"
		ctr images import --local "$(realpath "$f")"
		# The node's image service looks again at a tag that it knows only if its own mark is off: without this it would go on
		# with the older image, or with none.
		tag=$(tar -xOf "$f" manifest.json | sed -n 's/.*"RepoTags":\["\([^"]*\)".*/\1/p')
		ctr images label "$tag" io.cri-containerd.image= > /dev/null
		until_ok 10 marked "$tag" || die "$NODE did not take $tag in: see $LOG/containerd*.log"
	done
}

for node in ${only:-$(nodes)}; do
	on "$node"
	! alive "$NODE" || load "$@"
done

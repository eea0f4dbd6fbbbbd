#!/bin/bash
# load-image.sh FILE.tar...: imports image archives into the node's containerd.
set -eu
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || die "usage: load-image.sh FILE.tar..."
need_root
need_running
for f; do
	[ -e "$f" ] || die "no such file: $f"
	# A name that moves to another image would leave the runtime without that image's own name: it has to go first.
	tar -xOf "$f" manifest.json | grep -o '"RepoTags":\["[^]]*"' | grep -o '[a-z0-9./-]*:[A-Za-z0-9._-]*' | grep / | while read -r tag; do
		inside env CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1 "$BIN/ctr" -a "$RUN/containerd.sock" -n k8s.io images rm --sync "$tag" >/dev/null 2>&1 </dev/null || true
	done
	inside env CONTAINERD_SUPPRESS_DEPRECATION_WARNINGS=1 "$BIN/ctr" -a "$RUN/containerd.sock" -n k8s.io images import --local "$(realpath "$f")"
done

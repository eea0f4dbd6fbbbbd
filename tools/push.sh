#!/bin/bash
# push.sh IMAGE REFERENCE: copies an image to a registry, with the credentials of "docker login" or "podman login", and
# prints the reference by digest. IMAGE is an archive, or oci:FOLDER with images of several architectures. A loopback
# address has no TLS.
set -eu
[ $# = 2 ] || { sed -n '2,4s/^# \?//p' "$0" >&2; exit 64; }
"$(dirname "$0")/../test/cluster/packages.sh" skopeo >&2
image=$1 reference=$2 tls=()
[[ $image == oci:* ]] || image=docker-archive:$image
[[ ! $reference =~ ^(127\.[0-9.]+|localhost)(:|/) ]] || tls=(--dest-tls-verify=false)
digest=$(mktemp)
trap 'rm -f "$digest"' EXIT
skopeo copy --quiet --all "${tls[@]}" --digestfile "$digest" "$image" "docker://$reference"
name=${reference##*/}
echo "${reference%"$name"}${name%%:*}@$(cat "$digest")"

#!/bin/bash
# image.sh NAME ARCHIVE CONTEXT [OPTION...]: builds an image of a Dockerfile, and writes it into ARCHIVE, which docker,
# podman and containerd load under NAME. Options are those of "buildah build". The same files give the same bytes. Of two
# builds the second waits. Needs root. Setting:
#   ARCH=arm64   the architecture; default: this machine's
set -eu
[ $# -ge 3 ] || { sed -n '2,5s/^# \?//p' "$0" >&2; exit 64; }
tools=$(dirname "$0") name=$1 archive=$2 context=$3
shift 3
"$tools/../test/cluster/packages.sh" buildah

exec 9< "$0"
flock 9
buildah() { "$tools/buildah.sh" "$@" > /dev/null; }
buildah rm --all # of builds that were killed
"$tools/debian.sh"

for base in flexctl shell; do # .buildah may have been removed since make images
	file=$tools/../bin/images/$base.tar
	[ -e "$file" ] || continue
	buildah inspect --type image "registry.invalid/flex-provisioner/$base:dev" 2> /dev/null ||
		buildah pull --quiet "docker-archive:$file"
done

here=$(dpkg --print-architecture)
buildah build --quiet --pull=never --timestamp 0 --identity-label=false --platform "linux/${ARCH:-$here}" \
	--build-arg "BUILDPLATFORM=linux/$here" --tag "$name" "$@" "$context" # docker sets it, buildah of Debian 12 does not

mkdir -p "$(dirname "$archive")"
rm -f "$archive.part" # buildah adds to an archive that is there
buildah push --quiet "$name" "docker-archive:$archive.part:$name"
mv "$archive.part" "$archive" # whole or not at all
buildah rmi --prune # what had the name before

#!/bin/bash
# buildah.sh COMMAND...: buildah without a daemon, with images of this checkout's own in .buildah.
set -eu
root=$(realpath -m "$(dirname "$0")/../.buildah")
[ "$(id -u)" = 0 ] || { echo "buildah: needs root" >&2; exit 1; }
export BUILDAH_ISOLATION=chroot
exec buildah --storage-driver vfs --root "$root/images" --runroot "$root/run" "$@"

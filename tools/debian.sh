#!/bin/bash
# debian.sh: has debian:12-slim for Dockerfiles that begin with it. No registry is asked: the image is made from Debian's
# archive, once a machine, and is like the one on Docker Hub in what Dockerfiles can see of it.
set -eu
tools=$(dirname "$0") name=docker.io/library/debian:12-slim
! "$tools/buildah.sh" inspect --type image "$name" > /dev/null 2>&1 || exit 0

cache=${XDG_CACHE_HOME:-$HOME/.cache}/flex-provisioner
userland=$cache/debian-12-$(dpkg --print-architecture).tar
mkdir -p "$cache"
exec 8> "$userland.lock"
flock 8
if [ ! -e "$userland" ]; then
	"$tools/../test/cluster/packages.sh" mmdebstrap
	echo "debian: making debian:12-slim, about 30 s"
	mmdebstrap --quiet --variant=minbase --format=tar bookworm "$userland.part"
	mv "$userland.part" "$userland"
fi

"$tools/buildah.sh" build --quiet --pull=never --timestamp 0 --tag "$name" --file - "$cache" > /dev/null <<-D
	FROM scratch
	ADD ${userland##*/} /
	RUN printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d && chmod 0755 /usr/sbin/policy-rc.d
	CMD ["bash"]
D

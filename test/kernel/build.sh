#!/bin/bash
# build.sh: has Debian's kernel, and what its initiators and servers need, in a folder that a virtual machine lays
# over this machine's files. Nothing is installed here: an NFS server, a multipathd or a kernel would change the
# machine. Prints the folder: root/ with the files, vmlinuz and initrd.gz, and uml.gz for user-mode Linux.
set -euo pipefail
# shellcheck source=lib.sh
. "$(dirname "$0")/lib.sh"
PACKAGES=(linux-image-amd64 e2fsprogs iproute2 kmod multipath-tools nfs-kernel-server nftables nvme-cli open-iscsi
	socat udev user-mode-linux)
# What SELinux's policy is made of and by.
PACKAGES+=(checkpolicy m4 make policycoreutils selinux-policy-default selinux-policy-dev selinux-policy-src
	selinux-utils semodule-utils)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/flex-provisioner/kernel

# missing prints the packages that this machine lacks, with their versions.
missing() { apt-get install -s --no-install-recommends "${PACKAGES[@]}" | sed -n '/^Inst /p'; }

download() { # DIR
	mkdir -p "$1/partial"
	if ! apt-get install --download-only --yes --quiet=2 --no-install-recommends -o Dir::Cache::archives="$1" \
		"${PACKAGES[@]}" > "$1.log" 2>&1; then
		tail -n 20 "$1.log" >&2
		die "apt-get could not download ${PACKAGES[*]}"
	fi
}

# unpack keeps the links from /lib to /usr/lib and so on: over this machine's, a directory would hide all that is there.
unpack() { # DEBS ROOT
	local top deb
	mkdir -p "$2/usr"
	for top in bin lib lib64 sbin; do
		[ ! -L "/$top" ] || { mkdir -p "$2/usr/$top" && ln -s "usr/$top" "$2/$top"; }
	done
	for deb in "$1"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$2"
	done
}

# initramfs holds a shell, and the modules that the first steps need, in the order in which they can be loaded. Everything
# else is loaded from root/.
initramfs() { # ROOT VERSION OUT MODULE...
	local root=$1 version=$2 out=$3 dir module
	shift 3
	dir=$(mktemp -d)
	mkdir -p "$dir"/{bin,modules,proc,sys,dev,lab,host,rw,new}
	cp /bin/busybox "$dir/bin/"
	ln -s busybox "$dir/bin/sh"
	cp "$LAB/init" "$dir/init"
	for module; do modprobe -d "$root" -S "$version" --show-depends "$module"; done |
		awk '$1 == "insmod" && !seen[$2]++ {print $2}' > "$dir/paths"
	while read -r module; do
		cp "$module" "$dir/modules/"
		echo "${module##*/}" >> "$dir/modules/order"
	done < "$dir/paths"
	(cd "$dir" && find . | busybox cpio -o -H newc 2> /dev/null) | gzip -1 > "$out"
	rm -r "$dir"
}

# policy makes Debian's policy, as the installation of its package does, with the module for containers, which is in its
# source alone. Its programs find each other by path, so they see what is unpacked laid over this machine's files.
policy() { # ROOT
	unshare --mount bash -eu -s "$1" <<-'N'
	mount -t tmpfs tmpfs /mnt
	for top in usr etc var; do
		mkdir -p "/mnt/$top" "/mnt/work/$top"
		mount -t overlay -o "lowerdir=$1/$top:/$top,upperdir=/mnt/$top,workdir=/mnt/work/$top" overlay "/$top"
	done
	printf 'SELINUX=permissive\nSELINUXTYPE=default\n' > /etc/selinux/config
	mkdir /mnt/container && cd /mnt/container
	tar -x --zstd -f /usr/src/selinux-policy-src.tar.zst --wildcards --strip-components 4 '*/services/container.[tf][ec]'
	make -s -f /usr/share/selinux/devel/Makefile container.pp >&2
	# The machines' files have no labels, and their services run in the domain of process 1.
	cat > lab.cil <<-'C'
	(allow unlabeled_t tmpfs_t (filesystem (associate)))
	(typeattributeset container_engine_domain (kernel_t))
	(typeattributeset container_engine_system_domain (kernel_t))
	(allow kernel_t container_t (process2 (nnp_transition nosuid_transition)))
	C
	semodule -n -s default -i /usr/share/selinux/default/*.pp* container.pp lab.cil
	cp -a /mnt/etc/selinux/. "$1/etc/selinux/"
	N
}

build() { # OUT
	local version
	download "$1/debs"
	unpack "$1/debs" "$1/root"
	version=$(cd "$1/root/usr/lib/modules" && echo *)
	depmod -b "$1/root" "$version"
	cp "$1/root/boot/vmlinuz-$version" "$1/vmlinuz"
	initramfs "$1/root" "$version" "$1/initrd.gz" virtio_pci virtio_net 9p 9pnet_virtio overlay
	version=$(cd "$1/root/usr/lib/uml/modules" && echo *)
	ln -s "../uml/modules/$version" "$1/root/usr/lib/modules/$version"
	initramfs "$1/root" "$version" "$1/uml.gz" overlay
	policy "$1/root"
	rm -r "$1/debs"
}

main() {
	local wanted dir tmp
	"$LAB/../cluster/packages.sh" busybox-static kmod
	wanted=$(missing)
	dir=$CACHE-$({ echo "$wanted" && cat "$0" "$LAB/init"; } | sha256sum | cut -c1-16)
	mkdir -p "$(dirname "$CACHE")"
	exec 8> "$CACHE.lock"
	flock 8
	if [ ! -d "$dir" ]; then
		echo "kernel: unpacking Debian's kernel, and what this machine lacks of ${PACKAGES[*]:1}" >&2
		tmp=$(mktemp -d "$CACHE-XXXXXX")
		# shellcheck disable=SC2064 # the folder of now
		trap "rm -rf '$tmp'" EXIT
		chmod 755 "$tmp"
		build "$tmp"
		mv -T "$tmp" "$dir"
	fi
	echo "$dir"
}
main
